#pragma once
// From a Graph to an engine.

#include <functional>
#include <string>
#include <vector>

#include "csrc/graph/graph.h"
#include "csrc/settings.h"
#include "runtime/device_profile.h"
#include "runtime/engine_spec.h"

namespace tv {

struct NativeNode {
  int32_t node = 0;        ///< index into Graph::nodes
  std::string reason;
};

struct Partition {
  std::vector<std::vector<int32_t>> blocks;  ///< node indices of each engine, ascending
  std::vector<NativeNode> native;
  int64_t compute_nodes = 0, covered_nodes = 0;  ///< nodes that do work; those inside engines
};

/// Splits the graph: acyclic, largest first. Needs no device. Throws Error(kUser) listing what is in
/// the way where settings.require_full_compilation and something stays native.
Partition partition(const Graph& graph, const Settings& settings, const DeviceProfile& device);

/// The sub-graph of one block: values made outside become inputs (weights stay weights), values read
/// outside become outputs. `inputs`/`outputs` name the values of `graph` they stand for.
struct Block {
  Graph graph;
  std::vector<ValueId> inputs, weights, outputs;  ///< ids in the graph it was cut from
};
Block extract(const Graph& graph, const std::vector<int32_t>& nodes);

using Progress = std::function<void(const std::string& stage, int64_t done, int64_t total)>;

/// Runs the passes, converters, code generation and memory plan. Deterministic: the same graph,
/// settings and profile give the same bytes. Throws Error.
EngineSpec compile(Graph graph, const Settings& settings, const DeviceProfile& device,
                   const Progress& progress = nullptr);

}  // namespace tv
