#pragma once

#include "csrc/graph/graph.h"

namespace tv {

/// The graph with int64 computed as int32 and float64 as float32 (truncate_long_and_double): every
/// value, inputs and outputs included, and every dtype attribute. Who calls the engine casts.
Graph truncate_long_and_double(Graph graph);

/// Whether a node means something else of narrower types: it takes bytes for those of another type.
bool reads_bytes(const Node& node);

}  // namespace tv
