#pragma once
// What compiling a graph would do, without doing it.

#include <string>
#include <vector>

#include "csrc/plan/plan.h"

namespace tv {

/// The plan as a JSON object:
///   graph, nodes, compute_nodes, covered_nodes, coverage (1 if nothing does work)
///   engines         for each: nodes, compute_nodes, operators {name: count}, weights,
///                   weight_bytes, inputs and outputs (name, dtype, shape), quantised: of each
///                   quantised tensor: tensor (its name), outcome, source, module_path
///   native          for each node: node (index), operator, name, reason, source, module_path,
///                   does_work
///   work            for each node that does work: operator, engine (-1: native), module_path,
///                   flops (flops.h)
///   operators       the native nodes that do work, by operator and reason, most frequent first:
///                   operator, reason, count
///   min_block_size, recommended_min_block_size  as below
/// A symbolic dimension is text ("batch", "2*batch+1"), any other a number.
std::string dry_run_report(const Plan& plan);

/// What each min_block_size makes of blocks of `sizes` compute nodes (Partition::candidate_sizes,
/// of one graph or of several) in graphs of `compute_nodes` together, as a JSON object:
///   min_block_size  of each setting that makes a difference: min_block_size, engines,
///                   covered_nodes, coverage
///   recommended_min_block_size  the largest whose coverage is within 1 % of the best
std::string block_sizes_report(const std::vector<int64_t>& sizes, int64_t compute_nodes);

}  // namespace tv
