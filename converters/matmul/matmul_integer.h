#pragma once
// tv::matmul_integer(a, b, a_zero?, b_zero?): Σ over k of (a[m, k] - a_zero[m]) · (b[n, k] -
// b_zero[n]) of 8-bit integers, in 32 bits that wrap. a and b may have one batch dimension, [z, m,
// k] and [z, n, k]. Zero points are integers of shape [m or 1, 1] and [n or 1, 1], the same for all
// of a batch. Made by multiply_integers.

#include "converters/kit/steps.h"

namespace tv {

struct IntegerMatrix {
  ValueId value = kNoValue, zero = kNoValue;
  Expr rows, row_stride, k_stride, batch_stride;
  bool by_rows = false;  ///< each row has a zero point of its own
};

struct IntegerProduct {
  Expr batch = 1, m, n, k;
  bool batched = false;
  IntegerMatrix a, b;
};

/// The tactic for CPU drivers that takes `rows` rows of a at once (matmul_quantised_simd.cpp).
Tactic integer_simd_tactic(const NodeContext& context, Builder& builder,
                           const IntegerProduct& product, int64_t rows);

/// Rows of an operand one after the other, a byte an element, each 4 · ceil(k / 4) bytes long: the
/// operand itself where it lies so. `flipped`: of uint8, 128 less each.
ValueId integer_rows(const NodeContext& context, Builder& builder, const char* name,
                     const IntegerMatrix& operand, const IntegerProduct& product, bool flipped,
                     std::vector<Step>& steps);

}  // namespace tv
