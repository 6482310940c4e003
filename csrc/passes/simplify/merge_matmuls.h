#pragma once

#include "csrc/graph/graph.h"

namespace tv {

/// Merges products of one matrix with several weights (query, key and value of an attention) into
/// one product with the concatenated weights; the results are views of it. Values computed from
/// weights alone (casts of them) count as weights. The weight program concatenates the weights.
/// Runs on ATen's operators, before canonicalise and after equal nodes were merged.
Graph merge_matmuls(Graph graph);

/// The same of products that may be computed in int8 (Node::input_scale), where a calibration says
/// the same of each, and of no others. Runs before quantise_calibrated, which hides weights.
Graph merge_calibrated(Graph graph);

}  // namespace tv
