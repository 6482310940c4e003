#pragma once
// What engines do not take.

#include <string>

#include "csrc/converter.h"

namespace tv {

/// Why `node` cannot be in an engine, or "". The one place that asks: settings
/// (torch_executed_ops, truncate_long_and_double), the frontend (Origin::refusal), registry, common
/// checks, then the converter.
std::string unsupported(const NodeContext& context);

}  // namespace tv
