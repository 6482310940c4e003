#pragma once

#include <string_view>

#include "csrc/graph/graph.h"
#include "csrc/settings.h"

namespace tv {

/// The 16-bit dtype among settings.enabled_precisions, float16 first; kOther where there is none.
DType low_precision(const Settings& settings);

/// Whether results of an operator ("aten::exp", with or without its overload) leave float16's range
/// or need more of its mantissa, as torch.autocast has it.
bool stays_float32(std::string_view op);
/// True for a tensor argument that keeps its dtype where its operator is stored in 16 bits.
bool argument_stays_float32(std::string_view op, std::string_view argument);

/// The graph with float32 tensors between its nodes stored as `dtype` (float16 or bfloat16); inputs
/// and outputs stay float32, sums are taken in float32 anyway. A node that reads a float is stored
/// in 16 bits, unless it stays_float32.
Graph lower_precision(Graph graph, DType dtype);

}  // namespace tv
