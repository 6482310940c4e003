#include "csrc/passes/simplify/simplify.h"

#include <algorithm>
#include <unordered_map>

#include "csrc/graph/edit.h"

namespace tv {
namespace {

/// All that decides what a node's outputs are.
std::string key_of(const Graph& graph, const Node& node) {
  std::string key = signature(node) + " ->";
  for (const ValueId v : node.outputs) {
    key += v == kNoValue ? " _" : " " + type_text(graph.value(v));
  }
  return key;
}

void merge_equal_nodes(Graph& graph) {
  std::unordered_map<std::string, size_t> first;
  Replacements replaced;
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    Node& node = graph.nodes[n];
    replaced.apply(node);
    const auto [it, added] = first.emplace(key_of(graph, node), n);
    if (added) continue;
    const Node& earlier = graph.nodes[it->second];
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      if (node.outputs[i] != kNoValue) replaced.add(node.outputs[i], earlier.outputs[i]);
    }
  }
  replaced.apply(graph);
}

void drop_dead_nodes(Graph& graph) {
  std::vector<bool> read(graph.values.size(), false), keep(graph.nodes.size(), false);
  for (const GraphOutput& out : graph.outputs) read[out.value] = true;
  for (size_t n = graph.nodes.size(); n-- > 0;) {
    const Node& node = graph.nodes[n];
    keep[n] = std::any_of(node.outputs.begin(), node.outputs.end(),
                          [&](ValueId v) { return v != kNoValue && read[v]; });
    if (!keep[n]) continue;
    for (const ValueId v : node.all_inputs()) read[v] = true;
  }
  size_t kept = 0;
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    if (!keep[n]) continue;
    if (kept != n) graph.nodes[kept] = std::move(graph.nodes[n]);
    ++kept;
  }
  graph.nodes.resize(kept);
}

}  // namespace

Graph simplify(Graph graph) {
  merge_equal_nodes(graph);
  drop_dead_nodes(graph);
  return graph;
}

}  // namespace tv
