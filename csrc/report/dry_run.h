#pragma once
// What compiling a graph would do, without doing it.

#include <string>

#include "csrc/compile.h"

namespace tv {

/// The partition as a JSON object:
///   graph, nodes, compute_nodes, covered_nodes, coverage (1 where nothing does work)
///   engines         of each: nodes, compute_nodes, operators {name: count}, inputs and outputs
///   (name,
///                   dtype, shape), weights, weight_bytes
///   native          of each node: node (index), operator, name, reason, source, module_path,
///                   does_work
///   operators       the native nodes that do work, by operator and reason, most frequent first:
///                   operator, reason, count
///   min_block_size  what each setting gives: min_block_size, engines, covered_nodes, coverage
///   recommended_min_block_size  the largest that covers as much as any, but for 1 % of the nodes
/// A symbolic dimension is text ("batch", "2*batch+1"), any other a number.
std::string dry_run_report(const Graph& graph, const Partition& partition);

}  // namespace tv
