#include "csrc/passes/measure_integers.h"

#include "csrc/graph/edit.h"
#include "csrc/passes/node_alone.h"

namespace tv {

Graph measure_integers(Graph graph, const GraphUs& us) {
  const std::vector<bool> constant = constant_values(graph);
  for (Node& node : graph.nodes) {
    if (node.input_scale == 0) continue;
    Graph integers = node_alone(graph, constant, node), floats = integers;
    floats.nodes[0].input_scale = 0;
    const std::optional<double> integers_us = us(std::move(integers));
    const std::optional<double> floats_us = integers_us ? us(std::move(floats)) : std::nullopt;
    if (floats_us && *floats_us <= *integers_us) node.input_scale = 0;
  }
  return graph;
}

}  // namespace tv
