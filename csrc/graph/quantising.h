#pragma once
// What makes quantised tensors in the Graph: tv::quantize.

#include <algorithm>
#include <optional>

#include "csrc/graph/graph.h"

namespace tv {

/// The arguments of tv::quantize(input, scale?, zero_point?, step?, quant_min, quant_max, divides),
/// which gives integers of 8 bits: round(input / scale) + zero_point, halves to even, clamped to
/// quant_min … quant_max, computed in float32.
///
/// The scale is a tensor of one element, or `step`, a number. Without `divides` the input is
/// multiplied by the scale's reciprocal, that of a number being rounded once.
struct Quantising {
  ValueId input = kNoValue, scale = kNoValue, zero_point = kNoValue;
  double step = 0;  ///< 0: the scale is a tensor
  int64_t least = 0, most = 0;
  bool divides = false;
};

inline Quantising quantising_of(const Node& node) {
  return {node.input("input"),       node.input("scale"),
          node.input("zero_point"),  node.has("step") ? node.number("step") : 0,
          node.integer("quant_min"), node.integer("quant_max"),
          node.flag("divides")};
}

/// The same as arguments of a node.
inline std::vector<Arg> quantising_args(const Quantising& q) {
  return {tensor_arg("input", q.input),
          tensor_arg("scale", q.scale),
          tensor_arg("zero_point", q.zero_point),
          attr_arg("step", q.scale == kNoValue ? Attr(q.step) : Attr()),
          attr_arg("quant_min", Expr(q.least)),
          attr_arg("quant_max", Expr(q.most)),
          attr_arg("divides", q.divides)};
}

/// The number that aten::full makes its elements of; nullopt where it is no constant, or its type
/// holds less of it than float32, in which kernels hold such numbers.
inline std::optional<double> fill_of(const Graph& graph, const Node& full) {
  const DType dtype = graph.value(full.outputs.at(0)).dtype;
  const Expr* whole = std::get_if<Expr>(&full.arg("fill_value").attr);
  const bool rounded = is_float(dtype) && dtype != DType::kF32;
  if (rounded || (whole && !whole->is_constant())) return std::nullopt;
  return full.number("fill_value");
}

/// The number that a tensor of one element is filled with by a node of the graph, before
/// canonicalise's expansions; nullopt for others.
inline std::optional<double> filled_with(const Graph& graph, ValueId value) {
  const auto made_by = [&](ValueId v) {
    return std::ranges::find_if(graph.nodes, [&](const Node& node) {
      return std::ranges::find(node.outputs, v) != node.outputs.end();
    });
  };
  if (value == kNoValue || !(product(graph.value(value).shape) == Expr(1))) return std::nullopt;
  auto node = made_by(value);
  while (node != graph.nodes.end() && node->op == "aten::view") node = made_by(node->input("self"));
  return node != graph.nodes.end() && node->op == "aten::full" ? fill_of(graph, *node)
                                                               : std::nullopt;
}

}  // namespace tv
