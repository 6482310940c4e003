#pragma once

#include "csrc/graph/graph.h"

namespace tv {

/// The graph with int64 computed as int32 and float64 as float32 (truncate_long_and_double): every
/// value, inputs and outputs included, and every dtype attribute. The engine's caller casts.
Graph truncate_long_and_double(Graph graph);

/// The same of one node of `graph`: its attributes, programs and outputs.
void truncate_long_and_double(Graph& graph, Node& node);

/// Whether a node has another meaning for narrower types: it reinterprets bytes as another type.
bool reads_bytes(const Node& node);

}  // namespace tv
