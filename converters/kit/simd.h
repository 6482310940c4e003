#pragma once
// SIMD kernels for CPU drivers, where a subgroup is a vector register (docs/kernels.md says why
// they look as they do).

#include <string>

#include "csrc/graph/graph.h"
#include "runtime/vulkan/device_profile.h"

namespace tv {

/// Why SIMD kernels do not apply to a device, or "".
std::string simd_refusal(const DeviceProfile& device);

/// The function of simd.glsl that makes a number below `count` uniform: the smaller it is, the
/// fewer look-ups that takes.
std::string simd_uniform(const Graph& graph, const Expr& count);

}  // namespace tv
