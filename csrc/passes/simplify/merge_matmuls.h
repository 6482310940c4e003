#pragma once

#include "csrc/graph/graph.h"

namespace tv {

/// Merges products of one matrix with several weights (query, key and value of an attention) into
/// one product with the concatenated weights; the results are views of it. Values computed from
/// weights alone (casts of them) count as weights. The weight program concatenates the weights.
/// Runs on ATen's operators, before canonicalise and after equal nodes were merged.
Graph merge_matmuls(Graph graph);

}  // namespace tv
