#pragma once
// Which nodes of a prepared graph run in which engine.

#include <torch/csrc/jit/ir/ir.h>

#include <string>
#include <vector>

#include "csrc/plan/plan.h"
#include "python/bindings/script/import.h"

namespace tv::script {

/// Nodes between two that have to stay where they are, in one block: any order that respects data
/// will do.
struct Region {
  torch::jit::Block* block = nullptr;
  std::vector<torch::jit::Node*> nodes;  ///< in order
  torch::jit::Node* end = nullptr;       ///< what follows them
};

/// The regions of a block and of the blocks inside it, in order of execution.
std::vector<Region> regions(torch::jit::Block* block);

struct RegionPartition {
  Imported imported;  ///< its graph is the plan's
  Plan plan;          ///< the reason of each node is the importer's or a converter's
  std::vector<std::vector<torch::jit::Node*>> engines;  ///< nodes that compute, in order
};

/// Throws as plan() does.
RegionPartition partition_region(const Region& region, const ImportContext& context,
                                 const Settings& settings, const DeviceProfile& device);

}  // namespace tv::script
