#pragma once

#include "csrc/cost_model.h"
#include "csrc/graph/graph.h"

namespace tv {

/// Takes fused heads and tails apart again where that is measured to be faster: a head is computed
/// wherever its reader reads, in that order; a tail, `tails`, takes registers of a product's tile.
/// They stay where times are not known or differ by less than a twentieth. Runs last, so that what
/// is compared is what would be built.
Graph measure_fusion(Graph graph, const NodesUs& us, bool tails);

}  // namespace tv
