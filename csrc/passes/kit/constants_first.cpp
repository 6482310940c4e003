#include "csrc/passes/kit/constants_first.h"

#include <algorithm>

#include "csrc/graph/edit.h"

namespace tv {

void put_constants_first(Graph& graph) {
  const std::vector<bool> constant = constant_values(graph);
  // (std::ranges' returns a subrange, which clang 14 cannot make of libstdc++ 12's.)
  std::stable_partition(graph.nodes.begin(), graph.nodes.end(), [&](const Node& node) {
    return std::ranges::all_of(
        node.outputs, [&](ValueId v) { return v == kNoValue || constant[static_cast<size_t>(v)]; });
  });
}

}  // namespace tv
