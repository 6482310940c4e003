#include "csrc/plan/plan.h"

#include <algorithm>
#include <numeric>

#include "csrc/cache/engine_cache.h"
#include "csrc/cache/engine_key.h"
#include "csrc/cache/names.h"
#include "csrc/compile/compile.h"
#include "csrc/operators/check_operators.h"
#include "csrc/partition/dependencies.h"
#include "csrc/partition/unsupported.h"
#include "csrc/partition/what_if.h"
#include "csrc/tuner/tuner.h"
#include "runtime/base/env.h"
#include "runtime/base/error.h"

namespace tv {
namespace {

/// One block, or what is in the way of it.
Partition whole_graph(const Graph& graph, const Settings& settings, const DeviceProfile& device) {
  Partition parts;
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    const Node& node = graph.nodes[n];
    parts.compute_nodes += does_work(node);
    std::string reason = unsupported({graph, node, device, settings});
    if (reason.empty()) continue;
    parts.native.push_back({static_cast<int32_t>(n), std::move(reason), /*refused=*/true});
  }
  if (!parts.native.empty()) return parts;
  parts.blocks.emplace_back(graph.nodes.size());
  std::iota(parts.blocks[0].begin(), parts.blocks[0].end(), 0);
  parts.covered_nodes = parts.compute_nodes;
  parts.candidate_sizes = {parts.compute_nodes};
  parts.schedule = {{.is_block = true, .index = 0}};
  return parts;
}

/// All of a graph is a block as it stands: inputs that nothing reads stay inputs.
Graph graph_of(const Plan& plan, size_t block) {
  const std::vector<int32_t>& nodes = plan.parts.blocks.at(block);
  return plan.rest == Rest::kNobody ? plan.graph : extract(plan.graph, nodes).graph;
}

/// What a frontend makes is as what a graph file has to be; tests look at that.
void check_frontend(const Graph& graph) {
  static const bool checks = env_flag("TORCH_VULKAN_CHECK_OPERATORS");
  if (!checks || graph.calibrated) return;  // whose notes are no arguments of operators
  std::vector<Condition> demands;
  try {
    check_operators(graph, demands);
  } catch (const Error& error) {
    throw Error(ErrorKind::kInternal, std::string("[plan] ") + error.what());
  }
}

/// Which of the products that have a scale are in blocks.
void find_scaled(const Graph& graph, const Partition& parts, CalibrationUse& use) {
  const auto scaled = [&](int32_t n) { return graph.nodes[n].input_scale != 0; };
  for (const std::vector<int32_t>& block : parts.blocks) {
    use.in_blocks += static_cast<size_t>(std::ranges::count_if(block, scaled));
  }
  const auto first = std::ranges::find_if(parts.native, scaled, &NativeNode::node);
  if (first != parts.native.end()) use.left_out = first->reason;
}

}  // namespace

Plan plan(Graph graph, const Settings& settings, const DeviceProfile& device, Rest rest) {
  check_frontend(graph);
  CalibrationUse calibration = calibrate(graph, settings, device);
  if (rest == Rest::kNobody) {
    for (const Node& node : graph.nodes) {
      for (const Condition& demand : node.origin.demands) add_condition(graph.conditions, demand);
    }
  }
  Partition parts = rest == Rest::kNobody ? whole_graph(graph, settings, device)
                                          : partition(graph, settings, device);
  find_scaled(graph, parts, calibration);
  return {std::move(graph), settings, device, rest, std::move(parts), std::move(calibration)};
}

bool is_whole(const Plan& plan) {
  return std::ranges::none_of(plan.parts.native, [&](const NativeNode& native) {
    return plan.rest == Rest::kNobody || does_work_in_model(plan.graph.nodes[native.node]);
  });
}

Partition parts_as_if(const Plan& plan, const std::set<std::string>& operators) {
  return partition_as_if(plan.graph, plan.settings, plan.device, operators);
}

Block cut(const Plan& plan, size_t block, const Border& border) {
  return extract(plan.graph, plan.parts.blocks.at(block), border);
}

Graph observed_by_calibration(Graph graph, const Settings& settings) {
  return observed(std::move(graph), settings);
}

std::vector<CalibrationPoint> observed_points(const Graph& graph, const Settings& settings) {
  return calibration_points(graph, settings);
}

std::vector<std::string> refusals(const Plan& plan) {
  std::vector<std::string> lines;
  for (const NativeNode& native : plan.parts.native) {
    const Node& node = plan.graph.nodes[native.node];
    const std::string where = node.source.empty() ? node.name : node.source;
    const std::string line = where + " " + node.op + ": " + native.reason;
    if (lines.empty() || lines.back() != line) lines.push_back(line);
  }
  return lines;
}

std::vector<QuantisedOutcome> quantised_tensors(const Plan& plan, size_t block) {
  return quantised_outcomes(graph_of(plan, block), plan.settings, plan.device);
}

std::vector<SparseOutcome> sparse_weights(const Plan& plan, size_t block) {
  return sparse_outcomes(graph_of(plan, block), plan.settings, plan.device);
}

std::vector<WriteOutcome> written_inputs(const Plan& plan, size_t block) {
  return write_outcomes(graph_of(plan, block), plan.settings, plan.device);
}

std::vector<SparseCandidate> sparse_candidates(const Graph& graph) { return candidates_of(graph); }

EngineSpec build(const Plan& plan, size_t block, const BuildOptions& options) {
  return compile_cached(graph_of(plan, block), plan.settings, plan.device, options.cache,
                        options.progress, [&] { return make_tuner(plan.device, plan.settings); });
}

std::optional<EngineSpec> find_built(const Plan& plan, size_t block, const CacheSettings& cache) {
  return find_cached(graph_of(plan, block), plan.settings, plan.device, cache);
}

std::string key_of(const Plan& plan, size_t block) {
  const Graph graph = graph_of(plan, block);
  const CanonicalGraph canonical = canonical_form(graph);
  return engine_key(canonical, plan.settings, plan.device) +
         names_text(graph, canonical, plan.settings);
}

}  // namespace tv
