#pragma once

#include "csrc/graph/graph.h"

namespace tv {

/// Products of one matrix with several weights (query, key and value of an attention) become one
/// product with the weights side by side, and the results views of it. What is computed from
/// weights alone (casts of them) counts as a weight. The weights are joined in the weight program.
/// Runs on ATen's operators, before canonicalise and after equal nodes were merged.
Graph merge_matmuls(Graph graph);

}  // namespace tv
