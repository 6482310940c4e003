#include "csrc/passes/write/merge_cache_writes.h"

#include <algorithm>

#include "csrc/graph/edit.h"
#include "csrc/graph/strided.h"

namespace tv {
namespace {

bool writes_one_entry(const Graph& graph, const Node& node) {
  if (node.op != "tv::in_place_index_put" || node.flag("accumulate")) return false;
  return std::ranges::all_of(node.inputs("indices"), [&](ValueId v) {
    return v == kNoValue || product(graph.value(v).shape) == Expr(1);
  });
}

/// Whether a node reads what lies in the memory of `storage`.
bool reads(const Graph& graph, const Node& node, ValueId storage) {
  const auto inputs = node.all_inputs();
  return std::ranges::any_of(inputs,
                             [&](ValueId v) { return layout_of(graph, v).base == storage; });
}

/// Whether `node` writes where `reader` reads.
bool writes_under(const Graph& graph, const Node& node, const Node& reader) {
  return std::ranges::any_of(node.outputs, [&](ValueId v) {
    return v != kNoValue && reads(graph, reader, layout_of(graph, v).base);
  });
}

Node pair_of(const Node& first, const Node& second) {
  Node pair = second;
  pair.op = "tv::in_place_index_put_pair";
  pair.args = {tensor_arg("self", first.input("self")),
               tensor_arg("self2", second.input("self")),
               tensor_list_arg("indices", first.inputs("indices")),
               tensor_arg("values", first.input("values")),
               tensor_arg("values2", second.input("values")),
               attr_arg("accumulate", false)};
  if (first.has("wraps")) pair.args.push_back(*first.find("wraps"));
  pair.outputs = {first.outputs[0], second.outputs[0]};
  pair.fused_ops = {first.op, second.op};
  return pair;
}

}  // namespace

Graph merge_cache_writes(Graph graph) {
  std::vector<bool> gone(graph.nodes.size(), false);
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& first = graph.nodes[i];
    if (gone[i] || !writes_one_entry(graph, first)) continue;
    const ValueId storage = layout_of(graph, first.outputs[0]).base;
    for (size_t j = i + 1; j < graph.nodes.size(); ++j) {
      Node& second = graph.nodes[j];
      // The first write moves to the second's place.
      if (reads(graph, second, storage) || writes_under(graph, second, first)) break;
      const bool same = writes_one_entry(graph, second) &&
                        second.inputs("indices") == first.inputs("indices") &&
                        second.has("wraps") == first.has("wraps") &&
                        layout_of(graph, second.outputs[0]).base != storage;
      if (!same) continue;
      second = pair_of(first, second);
      gone[i] = true;
      break;
    }
  }
  std::vector<Node> nodes;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    if (!gone[i]) nodes.push_back(std::move(graph.nodes[i]));
  }
  graph.nodes = std::move(nodes);
  return graph;
}

}  // namespace tv
