#pragma once

#include <optional>
#include <vector>

#include "csrc/passes/fuse/fusion_graph.h"

namespace tv {

/// An RMS norm of rows as what is computed of their normalised elements.
struct RowNorm {
  int32_t node = -1;
  ValueId x = kNoValue;  ///< what is normalised, of any float type
  double eps = 0;
  std::vector<ValueId> vectors;  ///< of a row's size, dense
  PointwiseProgram program;      ///< input 0 is normalised, then the vectors
};

/// The node `at` as a RowNorm, for readers that compute it themselves. Nullopt: it is another node,
/// or more than its last dimension is normalised, or its prologue does more than widen, or its
/// epilogue reads what is no vector.
std::optional<RowNorm> row_norm(const FusionGraph& graph, int32_t at);

}  // namespace tv
