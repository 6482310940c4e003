#pragma once
// Arithmetic on layouts: shapes with strides in elements.

#include "csrc/graph/graph.h"

namespace tv {

constexpr int64_t kMaxElements = int64_t{1} << 31;  ///< kernels count fewer elements, in 32 bits

/// The symbols as they bound a size: where there is no upper bound, the size to expect counts.
std::vector<Symbol> practical(std::vector<Symbol> symbols);

/// Elements of a shape at most, with symbols as they are in practice.
double most_elements(const Shape& shape, const std::vector<Symbol>& symbols);

/// The layout of a value in the storage that holds it: its view, else row-major from the start of
/// its own storage.
View layout_of(const Graph& graph, ValueId id);

/// True if walking `shape` in row-major order walks memory in steps of one element. Dimensions
/// of size 1 may have any stride; a shape with a constant 0 is dense.
bool is_dense(const Shape& shape, const Shape& strides);

/// True if the two address the same elements (strides of dimensions of size 1 do not matter).
bool same_strides(const Shape& shape, const Shape& a, const Shape& b);

/// Elements from the first to one past the last that the layout touches; 0 if a dimension is 0.
/// Strides must not be negative.
Expr span_elements(const Shape& shape, const Shape& strides, std::span<const Symbol> symbols);

/// Strides that repeat a value of `shape` over `to` by torch's broadcasting. Throws
/// Error(kInternal) where it does not broadcast.
Shape broadcast_strides(const Shape& shape, const Shape& strides, const Shape& to);

/// Drops dimensions of size 1 and merges neighbours that can be walked as one.
void collapse(Shape& shape, Shape& strides);

/// Dimensions from the outermost in memory to the innermost, where the strides are those of a dense
/// permutation of row-major; empty if they are not (and for rank 0).
std::vector<int64_t> dense_order(const Shape& shape, const Shape& strides);

/// Strides of a dense tensor whose dimensions lie in memory in this order.
Shape strides_in_order(const Shape& shape, const std::vector<int64_t>& order);

}  // namespace tv
