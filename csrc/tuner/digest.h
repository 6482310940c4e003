#pragma once

#include <string>

#include "csrc/cost_model.h"
#include "runtime/vulkan/device_profile.h"

namespace tv {

/// Digest of everything that a program launches on a device of this kind: kernels' texts and their
/// compiler's version, specialisation constants, parameters, grids, operands.
std::string program_digest(const TacticProgram& program, const DeviceProfile& device);

}  // namespace tv
