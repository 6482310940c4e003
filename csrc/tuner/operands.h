#pragma once

#include <cstdint>
#include <vector>

#include "runtime/base/dtype.h"

namespace tv {

/// Elements after which random operands repeat: a prime, so that no stride of a kernel meets it.
inline constexpr int64_t kOperandPeriod = 131071;

/// Bytes of kOperandPeriod random elements: floats uniform in [-1, 1), integers in [0, below) -
/// they may be indices - and booleans. Equal seeds give equal bytes.
std::vector<uint8_t> random_operand(DType dtype, uint32_t seed, int64_t below);

/// Element i of an array, as a number.
double element(DType dtype, const uint8_t* bytes, int64_t i);

}  // namespace tv
