#include "csrc/frontends/onnx/graph_nodes.h"

#include <algorithm>
#include <set>

namespace tv::onnx {

std::vector<bool> decided_by_inputs(const Graph& graph) {
  std::vector<bool> decided(graph.values.size(), false);
  for (const ValueId input : graph.inputs) decided.at(static_cast<size_t>(input)) = true;
  for (const Node& node : graph.nodes) {
    const std::vector<ValueId> reads = node.all_inputs();
    const bool any = std::ranges::any_of(
        reads, [&](ValueId value) { return decided.at(static_cast<size_t>(value)); });
    for (const ValueId output : node.outputs) {
      if (output != kNoValue) decided.at(static_cast<size_t>(output)) = any;
    }
  }
  return decided;
}

std::vector<std::vector<std::string>> graph_nodes(const ImportedModel& model) {
  const Graph& graph = model.graph;
  const std::vector<bool> decided = decided_by_inputs(graph);
  const std::vector<int32_t> makers = producers(graph);
  std::vector<std::set<std::string>> names(model.nodes.size());
  for (const Node& node : graph.nodes) {
    std::vector<ValueId> left = node.all_inputs();
    const bool reads_input = std::ranges::any_of(
        left, [&](ValueId value) { return decided.at(static_cast<size_t>(value)); });
    if (node.origin.index < 0 || !reads_input) continue;
    std::set<std::string>& own = names.at(static_cast<size_t>(node.origin.index));
    own.insert(node.name);
    while (!left.empty()) {
      const auto value = static_cast<size_t>(left.back());
      left.pop_back();
      if (decided.at(value) || makers.at(value) < 0) continue;
      const Node& maker = graph.nodes.at(static_cast<size_t>(makers[value]));
      if (!own.insert(maker.name).second) continue;
      for (const ValueId read : maker.all_inputs()) left.push_back(read);
    }
  }
  std::vector<std::vector<std::string>> made;
  for (const auto& own : names) made.emplace_back(own.begin(), own.end());
  return made;
}

}  // namespace tv::onnx
