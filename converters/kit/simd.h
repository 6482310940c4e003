#pragma once
// The style of kernels for CPU drivers (simd.glsl says why they look as they do).

#include <string>

#include "runtime/device_profile.h"

namespace tv {

/// Why the lane style does not apply to a device, or "".
std::string simd_refusal(const DeviceProfile& device);

}  // namespace tv
