#include "csrc/frontends/weight.h"

#include "csrc/graph/two_four.h"

namespace tv {

void mark_sparse(Graph& graph, const std::vector<Weight>& weights) {
  for (size_t i = 0; i < weights.size(); ++i) {
    const Weight& weight = weights[i];
    if (weight.shape.size() != 2 || !is_float(weight.dtype)) continue;
    const WeightBytes data = weight.load();
    graph.value(graph.weights.at(i)).two_four =
        two_four_dimensions({data.bytes, weight.dtype, weight.shape[0], weight.shape[1]});
  }
}

}  // namespace tv
