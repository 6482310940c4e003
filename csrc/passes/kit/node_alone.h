#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "csrc/graph/graph.h"

namespace tv {

/// µs that a small graph takes; nothing if that is not known.
using GraphUs = std::function<std::optional<double>(Graph graph)>;

/// A graph of the node alone: constants that it reads (`constant`, by value) are weights, other
/// values inputs.
Graph node_alone(const Graph& graph, const std::vector<bool>& constant, Node node);

}  // namespace tv
