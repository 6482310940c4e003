#pragma once
// From a program and concrete symbol values to a plan: which dispatches run, with what parameters
// and grids, and where the barriers are. A pure function; nothing here touches a device.

#include <array>
#include <cstdint>

#include "runtime/commands/encoded_program.h"

namespace tv {

/// Throws Error(kInternal) if parameters do not fit the push constants, and Error(kUnsupported)
/// where a grid does not fit the device or the device would end a loop too early.
EncodedProgram encode(const EncodeRequest& request);

/// Spreads `count` workgroups on a line over three dimensions; the product may be larger than
/// `count`, by less than one row, and kernels ignore the surplus. Throws Error(kInternal) where
/// they cannot fit.
std::array<uint32_t, 3> fold_grid(int64_t count, const std::array<uint32_t, 3>& max_grid);

}  // namespace tv
