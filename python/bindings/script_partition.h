#pragma once
// Which nodes of a prepared graph run in which engine.

#include <torch/csrc/jit/ir/ir.h>

#include <string>
#include <vector>

#include "csrc/partition/partition.h"
#include "python/bindings/script_import.h"

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
  Imported imported;    ///< for reports: what is native is "native::…"
  Partition partition;  ///< of imported.graph
  std::vector<std::vector<torch::jit::Node*>> engines;  ///< nodes that compute, in order
  std::unordered_map<const torch::jit::Node*, std::string>
      reasons;  ///< of nodes that converters refused
};

/// Throws as partition() does.
RegionPartition partition_region(const Region& region, const Knowledge& knowledge,
                                 const Settings& settings, const DeviceProfile& device);

/// Why a node of the region stays native: the importer's reason or a converter's.
std::string native_reason(const RegionPartition& parts, const Knowledge& knowledge,
                          const NativeNode& native);

}  // namespace tv::script
