#include "csrc/passes/quantise/measure_integers.h"

#include <algorithm>

#include "csrc/graph/edit.h"
#include "csrc/passes/kit/node_alone.h"
#include "csrc/passes/kit/product_operands.h"
#include "csrc/passes/quantise/calibrate.h"

namespace tv {
namespace {

bool has_matrix_units(DType dtype, const DeviceProfile& device) {
  return (dtype == DType::kF16 || dtype == DType::kBF16) &&
         std::ranges::any_of(device.coop_matrices,
                             [&](const CoopMatShape& units) { return units.a == name(dtype); });
}

/// Whether a rule expects a layer to be faster in integers where the device multiplies matrices of
/// 16 bits: products of few rows wait for the bytes of the weight, and of large ones the units work
/// longer than what is computed around them.
bool gains_beside_matrix_units(const Graph& graph, const Node& node) {
  constexpr int64_t kFewRows = 8, kLarge = int64_t{1} << 34;  // of products of two numbers
  const std::optional<ProductOperands> operands = product_of(node);
  if (!operands) return false;
  std::vector<int64_t> usual;
  for (const Symbol& symbol : graph.symbols) usual.push_back(symbol.opt);
  const Shape& result = graph.value(node.outputs.at(0)).shape;
  const int64_t results = product(result).eval(usual), columns = result.back().eval(usual);
  const int64_t terms = graph.value(operands->a).shape.back().eval(usual);
  return results <= kFewRows * columns || results >= kLarge / std::max<int64_t>(terms, 1);
}

bool is_optional(const Node& node) { return node.input_scale != 0 && !node.has(kInt8Required); }

/// The graph, or that without its scales where it is faster.
Graph faster_whole(Graph graph, const GraphUs& us) {
  if (std::ranges::none_of(graph.nodes, is_optional)) return graph;
  Graph floats = graph;
  for (Node& node : floats.nodes) {
    if (is_optional(node)) node.input_scale = 0;
  }
  const std::optional<double> integers_us = us(graph);
  const std::optional<double> floats_us = integers_us ? us(floats) : std::nullopt;
  return floats_us && *floats_us <= *integers_us ? floats : graph;
}

}  // namespace

Graph measure_integers(Graph graph, const Settings& settings, const DeviceProfile& device,
                       const GraphUs& us) {
  const std::vector<bool> constant = constant_values(graph);
  for (Node& node : graph.nodes) {
    if (node.input_scale == 0 || node.has(kInt8Required)) continue;
    const bool floats_by_rule = settings.matrix_units &&
                                has_matrix_units(graph.value(node.outputs.at(0)).dtype, device) &&
                                !gains_beside_matrix_units(graph, node);
    if (!us) {
      if (floats_by_rule) node.input_scale = 0;
      continue;
    }
    Graph integers = node_alone(graph, constant, node), floats = integers;
    floats.nodes[0].input_scale = 0;
    const std::optional<double> integers_us = us(std::move(integers));
    const std::optional<double> floats_us = integers_us ? us(std::move(floats)) : std::nullopt;
    if (floats_us ? *floats_us <= *integers_us : floats_by_rule) node.input_scale = 0;
  }
  return us ? faster_whole(std::move(graph), us) : graph;
}

}  // namespace tv
