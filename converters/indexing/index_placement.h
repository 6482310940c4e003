#pragma once
// Advanced indexing, x[i0, :, i1, …]: where the dimensions of x and of the indices' common shape
// stand in the result.

#include "converters/kit/steps.h"

namespace tv {

struct IndexPlacement {
  std::vector<ValueId> indices;  ///< the index tensors, in order, without the missing ones
  std::vector<int64_t> indexed;  ///< the dimension of x that each stands for
  std::vector<int64_t> sliced;   ///< dimensions without one, in order
  Shape index_shape;             ///< what the index tensors broadcast to
  size_t index_at = 0;           ///< first dimension of the result that belongs to the indices

  /// The result's dimension that shows dimension sliced[k] of x.
  size_t position(size_t k) const { return k < index_at ? k : k + index_shape.size(); }
  size_t result_rank() const { return sliced.size() + index_shape.size(); }
};

/// Of an operator with arguments self and indices (Tensor?[]), at least one of them a tensor.
IndexPlacement index_placement(const NodeContext& context);

/// Why indices cannot be read by a kernel (masks), or "".
std::string indices_unsupported(const NodeContext& context);

}  // namespace tv
