#pragma once
// Graph pieces that the converters of matrix decompositions share. Matrices are the last two
// dimensions, float32, of fixed sizes; a workgroup holds one in shared memory.

#include <string>

#include "converters/kit/steps.h"

namespace tv {

struct Triangle {
  bool upper = false, transposed = false, unit = false;
};
/// x of t x = b, or, where transposed, of tᵀ x = b; t and b have the same dimensions before the
/// last two.
ValueId solve_triangle(Rewriter& rw, ValueId t, ValueId b, Triangle triangle);

struct Factors {
  ValueId lu, pivots, info;  ///< as LAPACK's getrf leaves them
};
Factors lu_factors(Rewriter& rw, ValueId a);

/// Rows as `pivots` leave them, int32 [..., count]: number i is where row i comes from, or,
/// inverse, where it goes to.
ValueId pivoted_rows(Rewriter& rw, ValueId pivots, const Expr& count, bool inverse);

/// x of a x = b, transposed: of aᵀ x = b, by the factors of a.
ValueId solve_factored(Rewriter& rw, ValueId lu, ValueId pivots, ValueId b, bool transposed);

ValueId expanded(Rewriter& rw, ValueId value, const Shape& shape);  ///< a broadcast view

/// The dimensions before the last two, broadcast, followed by those of `matrix`.
Shape broadcast_batch(const Shape& a, const Shape& b, const Shape& matrix);

/// "" if the argument holds float32 matrices that a kernel can take.
std::string matrix_refusal(const NodeContext& context, const std::string& arg);

uint32_t matrix_group(const DeviceProfile& device);  ///< invocations that work on one matrix

}  // namespace tv
