#pragma once
// Nodes that the `expand` functions of products add.

#include "csrc/rewriter.h"

namespace tv {

/// tv::matmul of operands of rank 2 or more: […, m, k] and […, k, n]; `dtype` is the result's.
ValueId matmul_of(Rewriter& rw, ValueId a, ValueId b, DType dtype);
/// `value` with its last two dimensions swapped (a view).
ValueId transposed(Rewriter& rw, ValueId value);
/// `value` times a number; `value` itself for 1.
ValueId scaled(Rewriter& rw, ValueId value, double factor);
/// The dtype that sums are kept in between a product and what is added to it: fp32 for 16-bit
/// floats.
DType sum_dtype(DType dtype);

}  // namespace tv
