#pragma once
// Arithmetic on shapes and strides that may be symbolic, for converters of views.

#include <optional>
#include <span>

#include "csrc/converter.h"
#include "runtime/base/error.h"

namespace tv {

/// `index` counted from the front of a dimension of `size` elements (a negative one counts from
/// the end); nullopt if neither the symbols' ranges nor the graph's conditions determine its sign.
std::optional<Expr> from_front(const Expr& index, const Expr& size, const Graph& graph);

/// As from_front, then clamped to [0, size], as slices do.
std::optional<Expr> slice_bound(const Expr& index, const Expr& size, const Graph& graph);

/// Strides that show a tensor of `in` with `strides` as one of shape `out` (same elements in
/// row-major order); nullopt if no strides do, or if that cannot be proven.
std::optional<Shape> reshaped_strides(std::span<const Expr> in, std::span<const Expr> strides,
                                      std::span<const Expr> out);

}  // namespace tv
