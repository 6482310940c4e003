#pragma once

#include "csrc/graph/graph.h"

namespace tv {

/// Whether the model holds integers of 8 bits itself, so that int8 needs no calibration: weights,
/// or what its own nodes quantise.
bool is_quantised(const Graph& graph);

}  // namespace tv
