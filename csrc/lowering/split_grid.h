#pragma once
// Grids of two or three dimensions that pass what the device takes in one of them.

#include <span>
#include <vector>

#include "csrc/builder.h"
#include "runtime/vulkan/device_profile.h"

namespace tv {

/// The launches that do a step's work on the device: the step itself, or parts of its grid, of
/// which each has the define GRID_PART, its first workgroup as tv_first_x, _y, _z and the whole
/// grid as tv_groups_x, _y, _z (csrc/codegen/generate_kernel.cpp). Flat grids are spread by the
/// encoder.
std::vector<Step> split_grid(Step step, std::span<const Symbol> symbols,
                             const DeviceProfile& device);

}  // namespace tv
