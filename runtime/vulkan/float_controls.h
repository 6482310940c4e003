#pragma once
// What kernels request of a device's float32 arithmetic, so that results agree with IEEE 754 and
// torch.

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/vulkan/device_impl.h"

namespace tv {

/// What a device does with float32 numbers if a module requests it.
struct FloatControls {
  bool denormals = false;       ///< keeps them, which it flushes at will otherwise
  bool special_values = false;  ///< keeps zeros' signs, infinities and NaN, which it may take for
                                ///< absent otherwise: of x < 0 ? 0 : x it may make max(x, 0)

  bool operator==(const FloatControls&) const = default;
};

FloatControls offered_float_controls(const Device& device);

/// `module` with the execution modes that ask for `controls`. Engines do not hold them, as they are
/// the device's to offer. What is not SPIR-V 1.4 or later with one entry point comes back as it is.
std::vector<uint32_t> with_float_controls(std::span<const uint32_t> module, FloatControls controls);

}  // namespace tv
