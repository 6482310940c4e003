#include "csrc/frontends/weight.h"

#include "csrc/graph/two_four.h"
#include "runtime/base/sha256.h"

namespace tv {

std::string model_digest(std::span<const uint8_t> file, const std::vector<Weight>& weights) {
  std::string digests = sha256_hex(file);
  for (const Weight& weight : weights) {
    digests += " " + weight.name + " " + std::string(name(weight.dtype));
    for (const int64_t size : weight.shape) digests += " " + std::to_string(size);
    digests += " " + sha256_hex(weight.load().bytes);
  }
  return sha256_hex(digests);
}

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
