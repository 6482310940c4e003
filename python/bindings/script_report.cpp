#include "python/bindings/script_report.h"

#include <nlohmann/json.hpp>

#include "csrc/partition/dependencies.h"
#include "csrc/report/dry_run.h"
#include "python/bindings/script_nodes.h"

namespace tv::script {
namespace {

using nlohmann::json;

// At the usual sizes.
json shapes(const Graph& graph, const std::vector<ValueId>& values) {
  json all = json::array();
  std::vector<int64_t> usual;
  for (const Symbol& symbol : graph.symbols) usual.push_back(symbol.opt);
  for (const ValueId id : values) {
    json shape = json::array();
    if (id != kNoValue) {
      for (const Expr& dim : graph.value(id).shape) shape.push_back(dim.eval(usual));
    }
    all.push_back(shape);
  }
  return all;
}

// Arguments of the schema.
std::vector<ValueId> read_by(const Node& node) {
  std::vector<ValueId> values;
  for (const Arg& arg : node.args) {
    if (arg.is_tensor) values.insert(values.end(), arg.values.begin(), arg.values.end());
  }
  return values;
}

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
  std::vector<int> engine_of(graph.nodes.size(), -1);
  for (size_t b = 0; b < parts.plan.parts.blocks.size(); ++b) {
    for (const int32_t n : parts.plan.parts.blocks[b]) engine_of[n] = static_cast<int>(b);
  }
  report["work"] = json::array();
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    const Node& node = graph.nodes[n];
    if (!does_work(node)) continue;
    report["work"].push_back({{"operator", node.op},
                              {"module_path", node.module_path},
                              {"engine", engine_of[n]},
                              {"transposed", node.has("transposed") && node.flag("transposed")},
                              {"inputs", shapes(graph, read_by(node))},
                              {"outputs", shapes(graph, node.outputs)}});
  }
  report["sizes"] = parts.plan.parts.candidate_sizes;
  report["place"] = place_of(region.block);
  report["source"] = source_of(region.nodes.front());
  return report.dump();
}

}  // namespace tv::script
