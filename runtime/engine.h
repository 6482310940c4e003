#pragma once
// What applications include: devices, engines and their files. Sources of the project include the
// headers of its rooms.

#include "runtime/base/error.h"
#include "runtime/engine/engine.h"
#include "runtime/spec/vke.h"
#include "runtime/spec/vke_parts.h"
