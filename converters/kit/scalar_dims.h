#pragma once
// Operators along a dimension take a tensor without dimensions for one of a single element, on any
// side: gather of a scalar by a list of one index, and the other way round. An empty list of
// indices may have any rank.

#include "runtime/base/expr.h"

namespace tv {

/// The shape, of one dimension at least; of `rank`, all 0, where it has another one (0: any).
inline Shape with_a_dim(Shape shape, size_t rank = 0) {
  if (shape.empty()) shape.emplace_back(1);
  return rank == 0 || shape.size() == rank ? shape : Shape(rank, Expr(0));
}

/// Strides that go with it.
inline Shape strides_with_a_dim(Shape strides, size_t rank = 0) {
  if (strides.empty()) strides.emplace_back(0);
  return rank == 0 || strides.size() == rank ? strides : Shape(rank, Expr(0));
}

}  // namespace tv
