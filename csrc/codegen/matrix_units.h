#pragma once
// Kernels that use the device's matrix units: where they can run and what their text begins with.

#include <string>

#include "csrc/builder.h"

namespace tv {

/// Why kernels with these matrices cannot be built for `device`, or "".
std::string matrix_refusal(const MatrixUnits& units, const DeviceProfile& device);

/// Extensions and pragmas of such a kernel.
std::string matrix_preamble(const MatrixUnits& units);

}  // namespace tv
