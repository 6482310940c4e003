#pragma once
// What compiling would do with a region.

#include <string>

#include "python/bindings/script/partition.h"

namespace tv::script {

/// The region's entry as csrc/report/dry_run.h has it, with the nodes' TorchScript names, and
/// besides:
///   place   "forward", "forward, in a loop", "forward, in a branch"
///   source  where it begins
///   sizes   compute nodes of each block that min_block_size = 1 would make
///   work    of each node that does work: operator, module_path, engine (-1: native), inputs and
///           outputs (their shapes)
std::string region_report(const Region& region, const RegionPartition& parts);

}  // namespace tv::script
