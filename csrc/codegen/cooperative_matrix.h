#pragma once
// Kernels that use the device's matrix units: where they can run and what their text begins with.

#include <string>

#include "csrc/builder.h"

namespace tv {

/// Why kernels with these matrices cannot be built for `device`, or "".
std::string matrix_refusal(const CooperativeMatrix& matrix, const DeviceProfile& device);

/// Steps of k of the 16x16 matrices of signed bytes that a device multiplies, 32 or 16; 0: none.
uint32_t steps_of_bytes(const DeviceProfile& device);

/// Extensions, pragmas and float controls of such a kernel. TV_FLOAT16_CONTROLS: conversions to
/// float16 round to the nearest and keep denormals.
std::string matrix_preamble(const CooperativeMatrix& matrix, const DeviceProfile& device);

}  // namespace tv
