#pragma once
// What engines do not take.

#include <string>

#include "csrc/converter.h"

namespace tv {

/// Why `node` cannot be in an engine, or "". The one place that asks: registry, common checks,
/// settings (torch_executed_ops, truncate_long_and_double), then the converter.
std::string unsupported(const NodeContext& context);

}  // namespace tv
