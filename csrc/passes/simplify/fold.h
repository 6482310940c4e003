#pragma once

#include "csrc/graph/graph.h"

namespace tv {

/// Removes nodes whose result is one of their inputs for every input, -0 and nan included: views to
/// the same shape, permutations that undo each other, copies, casts to the same dtype, dropout
/// without training, x · 1, x / 1, x - 0 and, of integers, x + 0. Runs after canonicalise; removed
/// nodes are left for simplify. A node whose result is returned stays where its input is not a
/// node's value.
Graph fold(Graph graph);

}  // namespace tv
