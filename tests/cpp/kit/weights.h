#pragma once
// Graphs of tests whose inputs are weights, as in a model: kernels may ask more of constants, and
// want them in an order of their own.

#include <set>
#include <utility>
#include <vector>

#include "csrc/graph/graph.h"

namespace tv::test {

/// `graph` with these of its inputs as weights, in their order.
inline Graph with_weights(Graph graph, const std::set<size_t>& which) {
  std::vector<ValueId> inputs;
  for (size_t i = 0; i < graph.inputs.size(); ++i) {
    const ValueId id = graph.inputs[i];
    if (which.contains(i)) graph.value(id).kind = ValueKind::kWeight;
    (which.contains(i) ? graph.weights : inputs).push_back(id);
  }
  graph.inputs = std::move(inputs);
  return graph;
}

}  // namespace tv::test
