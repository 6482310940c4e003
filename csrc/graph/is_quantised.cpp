#include "csrc/graph/is_quantised.h"

#include <algorithm>

namespace tv {

bool is_quantised(const Graph& graph) {
  return std::ranges::any_of(graph.nodes, [&](const Node& node) {
    return std::ranges::any_of(node.all_inputs(), [&](ValueId v) {
      if (v == kNoValue || graph.value(v).kind == ValueKind::kInput) return false;
      return graph.value(v).dtype == DType::kI8 || graph.value(v).dtype == DType::kU8;
    });
  });
}

}  // namespace tv
