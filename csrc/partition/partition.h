#pragma once
// Which nodes of a Graph run in which engine.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "csrc/graph/graph.h"
#include "csrc/settings.h"
#include "runtime/vulkan/device_profile.h"

namespace tv {

struct NativeNode {
  int32_t node = 0;  ///< index into Graph::nodes
  std::string reason;
  bool refused = false;  ///< by itself, wherever it stood
};

/// One thing to run: an engine or a native node.
struct PartitionStep {
  bool is_block = false;
  int32_t index = 0;  ///< into Partition::blocks, or Graph::nodes
};

struct Partition {
  std::vector<std::vector<int32_t>> blocks;  ///< node indices of each engine, ascending
  std::vector<NativeNode> native;            ///< ascending
  std::vector<PartitionStep> schedule;  ///< an order that respects data, mutation and randomness
  int64_t compute_nodes = 0, covered_nodes = 0;  ///< nodes that do work; those inside engines
  /// Compute nodes of every block that min_block_size = 1 would make, largest first.
  std::vector<int64_t> candidate_sizes;
};

/// The least size of a block under these settings: settings.min_block_size, and 1 with
/// settings.require_full_compilation.
double least_block_size(const Settings& settings);

/// Splits the graph: acyclic, largest first. Needs no device. With
/// settings.require_full_compilation blocks of any size count; frontends, which know places in the
/// model, refuse what stays native all the same. A view of a graph input that is itself a graph
/// output stays native, so that eager's aliasing holds; so do views that only native nodes read.
Partition partition(const Graph& graph, const Settings& settings, const DeviceProfile& device);

/// What is known of a block's border beside the graph that it is cut from.
struct Border {
  /// What is read of it, by values of the graph; nothing: what other nodes and the graph's outputs
  /// read.
  std::optional<std::vector<GraphOutput>> outputs = std::nullopt;
  /// Values that are inputs (or weights) before those that nodes read first, read or not.
  std::vector<ValueId> inputs = {};
  /// In place of the graph's symbols: other ranges, and perhaps symbols of output strides behind.
  std::optional<std::vector<Symbol>> symbols = std::nullopt;
  /// Whether inputs are added that only determine symbols; otherwise the caller rewrites the sizes.
  bool binds_symbols = true;
};

/// The sub-graph of one block: values made outside become inputs (weights stay weights), values
/// read outside become outputs. `inputs`/`outputs` name the values of `graph` they stand for.
/// Demands of its nodes become conditions. Inputs come in order of first use; after them may come
/// graph inputs that only determine symbols (no node reads them). GraphOutput::strides are set for
/// outputs of `graph` alone; those that native readers expect of other outputs the caller sets.
struct Block {
  Graph graph;
  std::vector<ValueId> inputs, weights, outputs;  ///< ids in the graph it was cut from
};
Block extract(const Graph& graph, const std::vector<int32_t>& nodes, const Border& border = {});

}  // namespace tv
