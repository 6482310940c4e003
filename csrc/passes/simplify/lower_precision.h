#pragma once

#include <regex>
#include <string>
#include <vector>

#include "csrc/graph/graph.h"
#include "csrc/settings.h"

namespace tv {

/// Nodes that the user keeps in float32 (autocast_excluded_nodes, autocast_excluded_ops).
class ExcludedNodes {
 public:
  explicit ExcludedNodes(const Settings& settings);
  /// By its operator, with or without its overload, or a pattern that is found in its name or in
  /// that of the module it is in.
  bool contains(const Node& node) const;

 private:
  std::vector<std::regex> patterns_;
  std::vector<std::string> operators_;
};

/// The graph with float32 tensors between its nodes stored in low_precision(settings); inputs and
/// outputs keep their types, sums are taken in float32 anyway. A node that reads a float is stored
/// in 16 bits, unless it is excluded, or its results leave float16's range or need more of its
/// mantissa, as torch.autocast has it. Tensors of other types stay as they are. Single numbers and
/// what is computed of weights alone stay in float32, which costs nothing, and so do casts of wide
/// integers, with what reads those: sums of products of integers, biases and their scales.
Graph lower_precision(Graph graph, const Settings& settings);

}  // namespace tv
