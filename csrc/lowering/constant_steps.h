#pragma once

#include <vector>

#include "csrc/lowering/requests.h"

namespace tv {

/// Which of a node's launches belong to the weight program: those that read constants only, have no
/// symbol anywhere, and write nothing that another launch, or the caller, sees change per call.
/// Marks the values that they write as constant. `is_output[base]`: storage of a graph output.
std::vector<bool> mark_constant_steps(const std::vector<StepRequest>& steps, ValueTable& table,
                                      const std::vector<bool>& is_output);

}  // namespace tv
