#include "csrc/passes/simplify/gather_siblings.h"

#include <algorithm>
#include <map>

#include "csrc/graph/edit.h"

namespace tv {

namespace {

/// The activation that a product or convolution reads; kNoValue for other nodes.
ValueId read_by(const Node& node) {
  if (node.op == "aten::convolution") return node.input("input");
  return node.op == "tv::matmul" ? node.input("a") : kNoValue;
}

bool is_constant(const Node& node, const std::vector<bool>& constant) {
  return std::any_of(node.outputs.begin(), node.outputs.end(),
                     [&](ValueId v) { return v != kNoValue && constant[static_cast<size_t>(v)]; });
}

}  // namespace

Graph gather_siblings(Graph graph) {
  const std::vector<bool> constant = constant_values(graph);
  const std::vector<int32_t> made_by = producers(graph);
  std::map<ValueId, int32_t> first_of;                // value → the first node that multiplies it
  std::map<int32_t, std::vector<int32_t>> followers;  // that node → those to run after it
  std::vector<bool> moved(graph.nodes.size(), false);
  const auto ready_at = [&](const Node& node, int32_t place) {
    const auto inputs = node.all_inputs();
    return std::all_of(inputs.begin(), inputs.end(), [&](ValueId v) {
      const auto at = static_cast<size_t>(v);
      return constant[at] || made_by[at] < place;
    });
  };
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    const ValueId read = read_by(node);
    if (read == kNoValue || is_constant(node, constant)) continue;
    const auto [it, fresh] = first_of.emplace(read, static_cast<int32_t>(i));
    if (fresh || !ready_at(node, it->second)) continue;
    followers[it->second].push_back(static_cast<int32_t>(i));
    moved[i] = true;
  }

  std::vector<Node> nodes;
  for (const Node& node : graph.nodes) {
    if (is_constant(node, constant)) nodes.push_back(node);
  }
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    if (moved[i] || is_constant(graph.nodes[i], constant)) continue;
    nodes.push_back(graph.nodes[i]);
    for (int32_t follower : followers[static_cast<int32_t>(i)]) {
      nodes.push_back(graph.nodes[static_cast<size_t>(follower)]);
    }
  }
  graph.nodes = std::move(nodes);
  return graph;
}

}  // namespace tv
