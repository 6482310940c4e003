#pragma once
// Operators along a dimension take a tensor without dimensions for one of a single element, on any
// side: gather of a scalar by a list of one index, and the other way round.

#include "runtime/expr.h"

namespace tv {

/// The shape, of one dimension at least.
inline Shape with_a_dim(Shape shape) {
  if (shape.empty()) shape.emplace_back(1);
  return shape;
}

/// Strides that go with it.
inline Shape strides_with_a_dim(Shape strides) {
  if (strides.empty()) strides.emplace_back(0);
  return strides;
}

}  // namespace tv
