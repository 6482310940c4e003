#include "python/bindings/script/report.h"

#include <nlohmann/json.hpp>

#include "csrc/report/dry_run.h"
#include "python/bindings/script/nodes.h"

namespace tv::script {
namespace {

using nlohmann::json;

std::string place_of(const torch::jit::Block* block) {
  const torch::jit::Node* owner = block->owningNode();
  if (!owner || owner->kind() == c10::prim::Param || !owner->owningBlock() ||
      owner->blocks().empty()) {
    return "forward";
  }
  return owner->kind() == c10::prim::Loop ? "forward, in a loop" : "forward, in a branch";
}

}  // namespace

std::string region_report(const Region& region, const RegionPartition& parts) {
  const Graph& graph = parts.plan.graph;
  json report = json::parse(dry_run_report(parts.plan));
  for (json& native : report["native"]) {
    native["operator"] = graph.nodes[native["node"].get<size_t>()].origin.op;
  }
  report["sizes"] = parts.plan.parts.candidate_sizes;
  report["place"] = place_of(region.block);
  report["source"] = source_of(region.nodes.front());
  return report.dump();
}

}  // namespace tv::script
