#pragma once

#include <memory>

#include "csrc/settings.h"
#include "csrc/tuner/bench.h"
#include "runtime/vulkan/device.h"

namespace tv {

/// Measures on a device, with operands in its memory.
std::unique_ptr<Bench> make_device_bench(std::shared_ptr<Device> device, const Settings& settings);

}  // namespace tv
