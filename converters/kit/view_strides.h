#pragma once
// What the view converters share: arithmetic on shapes and strides that may be symbolic.

#include <optional>
#include <span>

#include "csrc/converter.h"
#include "runtime/base/error.h"

namespace tv {

/// `index` counted from the front of a dimension of `size` elements (a negative one counts from
/// the end); nullopt where neither the symbols' ranges nor the graph's conditions tell its sign.
std::optional<Expr> from_front(const Expr& index, const Expr& size, const Graph& graph);

/// As from_front, then clamped to [0, size], as slices do.
std::optional<Expr> slice_bound(const Expr& index, const Expr& size, const Graph& graph);

/// Strides that show a tensor of `in` with `strides` as one of shape `out` (same elements in
/// row-major order); nullopt where no strides do, or where that can't be proven.
std::optional<Shape> reshaped_strides(std::span<const Expr> in, std::span<const Expr> strides,
                                      std::span<const Expr> out);

}  // namespace tv
