#pragma once
// Graphs cut out of a graph file.

#include <cstdint>
#include <span>
#include <vector>

#include "csrc/frontends/graph_file/graph_file.h"

namespace tv::graph_file {

/// Puts numbers in the place of symbols, all of which have one value (Options::inputs). Throws
/// Error(kUser) where the graph does not run at these sizes.
void fix_sizes(Graph& graph);

class GraphParts {
 public:
  /// Of a model whose sizes are fixed, and whose values have different names.
  explicit GraphParts(Model model) : model_(std::move(model)) {}

  /// Numbers of the nodes that read something. Others are constants, which go with their readers.
  std::vector<size_t> nodes() const;

  /// These nodes (ascending) as a model. Values that other nodes made become inputs; what other
  /// nodes read, and the graph's outputs, become outputs.
  Model cut(std::span<const size_t> nodes) const;

 private:
  Model model_;
};

}  // namespace tv::graph_file
