#include "csrc/passes/kit/one_number.h"

#include "csrc/graph/quantising.h"
#include "csrc/passes/kit/moves.h"

namespace tv {

ValueId root_of(const Makers& makers, ValueId value) {
  for (const Node* node = makers.maker(value); node && keeps_order(*node);
       node = makers.maker(value)) {
    value = node->all_inputs().at(0);
  }
  return value;
}

std::optional<double> number_of(const Graph& graph, const Makers& makers, ValueId value) {
  if (value == kNoValue) return 0.0;
  const Node* made = makers.maker(root_of(makers, value), "aten::full");
  return made ? fill_of(graph, *made) : std::nullopt;
}

bool same_number(const Graph& graph, const Makers& makers, ValueId a, ValueId b) {
  if (a == b) return true;
  if (a != kNoValue && b != kNoValue && root_of(makers, a) == root_of(makers, b)) return true;
  const std::optional<double> first = number_of(graph, makers, a),
                              second = number_of(graph, makers, b);
  return first && second && *first == *second;
}

}  // namespace tv
