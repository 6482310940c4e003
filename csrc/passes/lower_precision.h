#pragma once

#include "csrc/graph/graph.h"
#include "csrc/settings.h"

namespace tv {

/// The 16-bit dtype among settings.enabled_precisions, float16 first; kOther where there is none.
DType low_precision(const Settings& settings);

/// The graph with float32 tensors between its nodes stored as `dtype` (float16 or bfloat16); inputs
/// and outputs stay float32, sums are taken in float32 anyway. A node that reads a float is stored
/// in 16 bits, unless its result leaves float16's range or needs more of its mantissa, as
/// torch.autocast has it.
Graph lower_precision(Graph graph, DType dtype);

}  // namespace tv
