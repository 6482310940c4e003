#include "csrc/lowering/value_table.h"

#include "csrc/graph/strided.h"

namespace tv {

ValueTable::ValueTable(const Graph& graph) : graph_(graph), constant_(graph.values.size(), false) {
  for (ValueId weight : graph.weights) constant_.at(static_cast<size_t>(weight)) = true;
}

const Value& ValueTable::value(ValueId id) const {
  return is_scratch(id) ? scratch_.at(static_cast<size_t>(id) - graph_.values.size())
                        : graph_.value(id);
}

View ValueTable::layout(ValueId id) const {
  if (!is_scratch(id)) return layout_of(graph_, id);
  return {id, Expr(0), contiguous_strides(value(id).shape)};
}

ValueId ValueTable::add_scratch(const std::string& name, DType dtype, Shape shape) {
  scratch_.push_back({name, dtype, std::move(shape), ValueKind::kNode, std::nullopt});
  constant_.push_back(false);
  return static_cast<ValueId>(size() - 1);
}

}  // namespace tv
