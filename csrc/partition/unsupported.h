#pragma once
// Which nodes of a Graph engines support.

#include <string>

#include "csrc/converter.h"

namespace tv {

/// Why the node cannot be in an engine, or "". The one place that decides it. Asks, in order:
/// settings (torch_executed_ops, truncate_long_and_double), the frontend (Origin::refusal), the
/// registry, the checks that apply to every node, and the converter. The partition also leaves out
/// blocks that are too small.
std::string unsupported(const NodeContext& context);

}  // namespace tv
