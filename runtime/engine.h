#pragma once
// The header for applications: devices, engines and their files. The project's own sources include
// the headers of the rooms below.

#include "runtime/base/error.h"
#include "runtime/engine/device_tensor.h"
#include "runtime/engine/engine.h"
#include "runtime/spec/vke.h"
#include "runtime/spec/vke_parts.h"
#include "runtime/vulkan/device_memory.h"
