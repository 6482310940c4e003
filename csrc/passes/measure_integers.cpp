#include "csrc/passes/measure_integers.h"

#include <map>
#include <string>

#include "csrc/graph/edit.h"

namespace tv {
namespace {

/// A graph of the node alone: constants that it reads are weights, other values inputs.
Graph alone(const Graph& graph, const std::vector<bool>& constant, Node node) {
  Graph made{.symbols = graph.symbols, .conditions = graph.conditions};
  std::map<ValueId, ValueId> ids;
  for (Arg& arg : node.args) {
    for (ValueId& value : arg.values) {
      if (value == kNoValue) continue;
      const auto [found, fresh] = ids.try_emplace(value, kNoValue);
      if (fresh) {
        const bool weight = constant[static_cast<size_t>(value)];
        Value leaf = graph.value(value);
        leaf.kind = weight ? ValueKind::kWeight : ValueKind::kInput;
        found->second = made.add_value(std::move(leaf));
        (weight ? made.weights : made.inputs).push_back(found->second);
      }
      value = found->second;
    }
  }
  for (ValueId& value : node.outputs) {
    if (value == kNoValue) continue;
    const Value result = graph.value(value);
    value = made.add_value(result);
    made.outputs.push_back({.value = value, .name = result.name, .strides = {}});
  }
  made.nodes = {std::move(node)};
  return made;
}

}  // namespace

Graph measure_integers(Graph graph, const GraphUs& us) {
  const std::vector<bool> constant = constant_values(graph);
  for (Node& node : graph.nodes) {
    if (node.input_scale == 0) continue;
    Graph integers = alone(graph, constant, node), floats = integers;
    floats.nodes[0].input_scale = 0;
    const std::optional<double> integers_us = us(std::move(integers));
    const std::optional<double> floats_us = integers_us ? us(std::move(floats)) : std::nullopt;
    if (floats_us && *floats_us <= *integers_us) node.input_scale = 0;
  }
  return graph;
}

}  // namespace tv
