#pragma once
// From the plan of a region to the Graph of one engine.

#include <utility>
#include <vector>

#include "csrc/graph/graph.h"
#include "python/bindings/script/partition.h"
#include "python/bindings/script/surgery.h"

namespace tv::script {

/// What an engine is made from, and what its parts stand for.
struct EngineGraph {
  Graph graph;
  std::vector<torch::jit::Value*> inputs, weights;  ///< in the order of the graph's
  /// Other values that are one of `inputs`, and which.
  std::vector<std::pair<torch::jit::Value*, torch::jit::Value*>> aliases;
  /// Of each of Excision::outputs, where it stands among the graph's outputs; a list has several.
  std::vector<std::vector<int>> outputs;
};

/// Block number `block` of the region's plan. Its sizes are expressions over those of `sizes`: of
/// what the engine is given. Throws Error(kUnsupported) where there are none.
EngineGraph engine_graph(const RegionPartition& parts, size_t block, const Excision& excision,
                         const ImportContext& context, Sizes& sizes);

}  // namespace tv::script
