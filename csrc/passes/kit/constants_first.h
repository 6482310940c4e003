#pragma once

#include "csrc/graph/graph.h"

namespace tv {

/// Moves what depends on weights alone to the front, so that it is there before the first of any
/// group of nodes that become one.
void put_constants_first(Graph& graph);

}  // namespace tv
