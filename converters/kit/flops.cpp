#include "converters/kit/flops.h"

#include <span>

namespace tv {
namespace {

/// {} where it is not there, as in a node that a frontend could not express.
Shape shape_of(const Graph& graph, const Node& node, const char* arg) {
  const ValueId value = node.input(arg);
  return value == kNoValue ? Shape{} : graph.value(value).shape;
}

/// Of so many products of queries and keys by their size, and of scores and values by theirs.
Expr attended(const Graph& graph, const Node& node, int64_t by_query, int64_t by_value) {
  const Shape query = shape_of(graph, node, "query"), key = shape_of(graph, node, "key");
  const Shape value = shape_of(graph, node, "value");
  if (query.empty() || key.size() < 2 || value.empty()) return 0;
  const Expr rows = product(std::span(query).first(query.size() - 1));
  return 2 * rows * key[key.size() - 2] * (by_query * query.back() + by_value * value.back());
}

/// Each element of `side` meets all of the weight that belongs to one channel.
Expr convolved(const Graph& graph, const Node& node, const Shape& side) {
  const Shape weight = shape_of(graph, node, "weight");
  return weight.empty() ? 0 : 2 * product(side) * product(std::span(weight).subspan(1));
}

}  // namespace

decltype(Converter::flops) flops_of_product(const char* a) {
  return [a](const Graph& graph, const Node& node) -> Expr {
    const Shape left = shape_of(graph, node, a);
    return left.empty() ? 0 : 2 * product(graph.value(node.outputs.at(0)).shape) * left.back();
  };
}

Expr flops_of_convolution(const Graph& graph, const Node& node) {
  if (node.flag("transposed")) return flops_of_transposed(graph, node);
  return convolved(graph, node, graph.value(node.outputs.at(0)).shape);
}

Expr flops_of_transposed(const Graph& graph, const Node& node) {
  return convolved(graph, node, shape_of(graph, node, "input"));
}

Expr flops_of_convolution_backward(const Graph& graph, const Node& node) {
  const Arg* mask = node.find("output_mask");
  if (mask == nullptr) return 0;
  const auto& wanted = std::get<std::vector<bool>>(mask->attr);
  const Shape side = shape_of(graph, node, node.flag("transposed") ? "input" : "grad_output");
  return (int64_t{wanted.at(0)} + int64_t{wanted.at(1)}) * convolved(graph, node, side);
}

Expr flops_of_attention(const Graph& graph, const Node& node) {
  return attended(graph, node, 1, 1);
}

Expr flops_of_attention_backward(const Graph& graph, const Node& node) {
  return attended(graph, node, 3, 2);
}

}  // namespace tv
