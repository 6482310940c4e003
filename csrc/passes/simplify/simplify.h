#pragma once

#include "csrc/graph/graph.h"

namespace tv {

/// Merges equal nodes (with equal arguments, attributes and programs) and drops nodes that nothing
/// reads. Inputs and weights stay, used or not.
Graph simplify(Graph graph);

}  // namespace tv
