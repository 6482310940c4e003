#pragma once
// Operators along a dimension treat a tensor without dimensions as one with a single element:
// gather of a scalar by a list of one index, and the reverse. An empty list of indices may have any
// rank.

#include "runtime/base/expr.h"

namespace tv {

/// The shape with at least one dimension; if `rank` is given (0: any) and differs, zeros of that
/// rank.
inline Shape with_a_dim(Shape shape, size_t rank = 0) {
  if (shape.empty()) shape.emplace_back(1);
  return rank == 0 || shape.size() == rank ? shape : Shape(rank, Expr(0));
}

/// The strides of such a shape.
inline Shape strides_with_a_dim(Shape strides, size_t rank = 0) {
  if (strides.empty()) strides.emplace_back(0);
  return rank == 0 || strides.size() == rank ? strides : Shape(rank, Expr(0));
}

}  // namespace tv
