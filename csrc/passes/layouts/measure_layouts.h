#pragma once

#include "csrc/cost_model.h"
#include "csrc/graph/graph.h"

namespace tv {

/// Decides by measured time where the rule of choose_channels_last stands for one side of a
/// conflict: values that it moved may be faster in row-major order after all, and values that it
/// left because a sum or an elementwise operator reads them, too, may be faster with the channels
/// as neighbours - with the elementwise operators between them walking in that order. The rule
/// stands where times are not known or differ by less than a twentieth. Runs after
/// choose_channels_last.
Graph measure_layouts(Graph graph, const NodesUs& us);

}  // namespace tv
