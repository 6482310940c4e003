#pragma once
// What the types of several families share.

#include "csrc/types/types.h"

namespace tv::types {

/// The operand's shape.
inline constexpr const char* kSame = "self [*s] -> [*s]";

/// All but the last `count` sizes.
inline Shape leading(const Shape& shape, size_t count) {
  return Shape(shape.begin(), shape.end() - static_cast<std::ptrdiff_t>(count));
}

/// The last `count` sizes.
inline Shape trailing(const Shape& shape, size_t count) {
  return Shape(shape.end() - static_cast<std::ptrdiff_t>(count), shape.end());
}

inline Shape joined_shape(Shape lead, const Shape& rest) {
  lead.insert(lead.end(), rest.begin(), rest.end());
  return lead;
}

}  // namespace tv::types
