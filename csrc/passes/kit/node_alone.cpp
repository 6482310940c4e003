#include "csrc/passes/kit/node_alone.h"

#include <map>
#include <utility>

namespace tv {

Graph node_alone(const Graph& graph, const std::vector<bool>& constant, Node node) {
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

}  // namespace tv
