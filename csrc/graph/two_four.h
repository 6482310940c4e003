#pragma once
// 2:4 sparsity in the bytes of a matrix: at most two of each four neighbours along a dimension,
// from its start on, are not zero.

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/base/dtype.h"

namespace tv {

/// A row-major matrix of floats of 16 or 32 bits.
struct MatrixBytes {
  std::span<const uint8_t> bytes;
  DType dtype = DType::kOther;
  int64_t rows = 0, columns = 0;
};

/// The dimensions along which it is 2:4 sparse, as in Value::two_four; 0 for other dtypes, and for
/// sizes that are not a multiple of 4.
uint8_t two_four_dimensions(const MatrixBytes& matrix);

/// Its bytes with all but the two largest magnitudes of each four neighbours along `dim` made zero,
/// the earlier ones of equal magnitudes kept.
std::vector<uint8_t> pruned_to_two_four(const MatrixBytes& matrix, size_t dim);

}  // namespace tv
