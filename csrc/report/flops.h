#pragma once
// Floating-point operations of a node, for reports.

#include "csrc/graph/graph.h"

namespace tv {

/// By its operator's registration (Converter::flops), at the sizes that engines are tuned at; 0 of
/// other operators.
int64_t flops_of(const Graph& graph, const Node& node);

}  // namespace tv
