#pragma once

#include "csrc/graph/graph.h"

namespace tv {

/// Attention over keys and values whose heads were repeated, each for a group of queries' heads,
/// reads what was repeated: repeat_kv(k) of [b, heads, n, d] is unsqueeze(2), expand and reshape,
/// and every attention takes keys and values of fewer heads. Heads that were expanded from one
/// become that one. Nothing is computed otherwise. Runs on ATen's operators, after
/// recognise_attention.
Graph group_heads(Graph graph);

}  // namespace tv
