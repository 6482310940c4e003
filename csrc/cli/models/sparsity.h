#pragma once

#include <vector>

#include "csrc/frontends/weight.h"
#include "csrc/graph/graph.h"

namespace tv::cli {

/// Makes the weights of products 2:4 sparse, whatever they were, by magnitude: `--sparsity=force`.
/// They are loaded pruned from then on. Says which results change.
void prune_weights(Graph& graph, std::vector<Weight>& weights);

}  // namespace tv::cli
