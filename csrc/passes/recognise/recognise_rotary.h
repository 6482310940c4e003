#pragma once

#include "csrc/graph/graph.h"

namespace tv {

/// x · cos + cat(-x2, x1) · sin, where x1 and x2 are the halves of x along the last dimension,
/// becomes tv::rotary(x, cos, sin, rotated), also where x is the beginning of rows, `rotated`
/// elements long, and cat puts the rest behind it. Two of them with one cos and sin, as queries and
/// keys are, become one tv::rotary_pair. What is computed stays the same. Runs on ATen's operators.
Graph recognise_rotary(Graph graph);

}  // namespace tv
