#pragma once
// A graph without what its engine does not depend on: names, provenance, the order of independent
// nodes.

#include <cstdint>
#include <string>
#include <vector>

#include "csrc/graph/graph.h"

namespace tv {

/// Where nodes and values stand in the canonical order. Equal texts: equal graphs but for names,
/// provenance and the order of nodes, and equal positions mean the same node or value.
struct CanonicalGraph {
  std::string text;                     ///< every operator, attribute, edge, dtype, shape, range
  std::vector<int32_t> node_position;   ///< by node of the graph
  std::vector<int32_t> value_position;  ///< by value: inputs, weights, then results of nodes
};

/// Of a graph as importers make it: no view, prologue or epilogue yet. Inputs, weights and outputs
/// count by their position. Nodes are ordered by what they compute and by what reads it, so that a
/// renamed or reordered graph gives the same text.
CanonicalGraph canonical_form(const Graph& graph);

}  // namespace tv
