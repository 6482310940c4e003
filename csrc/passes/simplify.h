#pragma once

#include "csrc/graph/graph.h"

namespace tv {

/// Merges nodes that compute the same from the same (every argument, attribute and program is
/// compared) and drops nodes that nothing reads. Inputs and weights stay, used or not.
Graph simplify(Graph graph);

}  // namespace tv
