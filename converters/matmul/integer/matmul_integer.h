#pragma once
// tv::matmul_integer(a, b, a_zero?, b_zero?): Σ over k of (a[m, k] - a_zero[m]) · (b[n, k] -
// b_zero[n]) of 8-bit integers, in 32 bits that wrap. a and b may have one batch dimension, [z, m,
// k] and [z, n, k]. Zero points are integers of shape [m or 1, 1] and [n or 1, 1], the same for all
// of a batch. Made by multiply_integers.

#include <vector>

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

/// How rows of an operand are to lie, one after the other, a byte an element.
struct IntegerRows {
  int64_t run = 4;       ///< zeros fill them up to a multiple of so many bytes
  bool flipped = true;   ///< of uint8, 128 less each
  bool in_runs = false;  ///< of one matrix: runs of 16 bytes, those of 16 rows side by side
};
/// The rows; the operand itself where it lies so.
ValueId integer_rows(const NodeContext& context, Builder& builder, const char* name,
                     const IntegerMatrix& operand, const IntegerProduct& product,
                     const IntegerRows& rows, std::vector<Step>& steps);

/// Zero points of `count` rows, `step` apart, of an operand that is multiplied as signed bytes.
struct ByteShifts {
  ValueId zero = kNoValue;
  Expr count = 1, step;
  bool is_unsigned = false;
};
/// A number of the weight program: whether any of these bytes are other than the elements less
/// their zero points. kNoValue where zero points are not constant, or no question.
ValueId any_shifted(Builder& builder, const ByteShifts& shifts, std::vector<Step>& steps);

/// How a kernel wants its operands.
struct IntegerOperands {
  int64_t run = 4;            ///< rows are a multiple of so many bytes
  bool finds_b_sums = false;  ///< finds sums of b's rows itself
  bool b_in_runs = false;     ///< b's rows in runs
  bool asks_b = false;        ///< asks b_any whether anything is subtracted from b's bytes
};
/// Both operands, and what integer_shift.glsl wants of them.
void add_integer_operands(const NodeContext& context, Builder& builder,
                          const IntegerProduct& product, const IntegerOperands& how, Tactic& tactic,
                          Step& step);

/// Tactics for the device's matrix units, best first by rule (matmul_integer_matrix.cpp).
std::vector<Tactic> integer_matrix_tactics(const NodeContext& context, Builder& builder,
                                           const IntegerProduct& product);

}  // namespace tv
