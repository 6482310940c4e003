#include "csrc/cli/models/sparsity.h"

#include <algorithm>
#include <memory>

#include "csrc/cli/text/lines.h"
#include "csrc/graph/two_four.h"
#include "csrc/plan/plan.h"

namespace tv::cli {
namespace {

/// What loads the weight without the smaller half of each four neighbours along `dim`.
std::function<WeightBytes()> pruned(const Weight& weight, size_t dim) {
  return [load = weight.load, dtype = weight.dtype, rows = weight.shape[0],
          columns = weight.shape[1], dim] {
    const WeightBytes whole = load();
    const auto bytes = std::make_shared<const std::vector<uint8_t>>(
        pruned_to_two_four({whole.bytes, dtype, rows, columns}, dim));
    return WeightBytes{*bytes, bytes};
  };
}

}  // namespace

void prune_weights(Graph& graph, std::vector<Weight>& weights) {
  size_t changed = 0;
  for (const auto& [value, along] : sparse_candidates(graph)) {
    const auto at = std::ranges::find(graph.weights, value) - graph.weights.begin();
    Weight& weight = weights.at(static_cast<size_t>(at));
    const uint8_t bit = static_cast<uint8_t>(1U << along);
    Value& marked = graph.value(value);
    const WeightBytes whole = weight.load();
    const MatrixBytes matrix{whole.bytes, weight.dtype, weight.shape[0], weight.shape[1]};
    if (!(two_four_dimensions(matrix) & bit)) {
      weight.load = pruned(weight, along);
      ++changed;
    }
    marked.two_four |= bit;
  }
  if (changed == 0) {
    say("Sparsity: there was nothing to prune");
    return;
  }
  say(
      format("Sparsity: pruned by magnitude to two of each four neighbours: %zu of the weights of "
             "products; results are not those of the model's own weights",
             changed));
}

}  // namespace tv::cli
