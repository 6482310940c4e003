#pragma once

#include "csrc/cost_model.h"
#include "csrc/graph/graph.h"

namespace tv {

/// Splits fused prologues, and with `epilogues` also epilogues, off again if that is measured to be
/// faster: a prologue is recomputed wherever its reader reads, and an epilogue takes registers of a
/// product's tile. They stay fused if times are unknown or differ by less than a twentieth. Runs
/// after the other decisions about fusion and layout, so that the graphs compared are those that
/// would be built.
Graph measure_fusion(Graph graph, const NodesUs& us, bool epilogues);

}  // namespace tv
