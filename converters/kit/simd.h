#pragma once
// SIMD kernels for CPU drivers, where a subgroup is a vector register (docs/kernels.md says why
// they look as they do).

#include <string>

#include "runtime/vulkan/device_profile.h"

namespace tv {

/// Why SIMD kernels do not apply to a device, or "".
std::string simd_refusal(const DeviceProfile& device);

}  // namespace tv
