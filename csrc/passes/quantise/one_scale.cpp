#include "csrc/passes/quantise/one_scale.h"

#include <algorithm>
#include <cmath>

#include "csrc/passes/kit/moves.h"

namespace tv {
namespace {

bool is_single(const Graph& graph, ValueId value) {
  return value == kNoValue || product(graph.value(value).shape) == Expr(1);
}

/// Scales whose products with integers of 9 bits are rounded as floats are, and finite.
bool is_usual(double scale) { return scale > 0x1p-110 && scale < 0x1p110; }

/// Whether the same number divides, or its reciprocal multiplies, that the integers are scaled by.
bool same_scale(const Graph& graph, const Makers& makers, const Quantising& quantising,
                ValueId scale) {
  if (scale == kNoValue) return false;
  const std::optional<double> number = number_of(graph, makers, scale);
  if (number && !is_usual(*number)) return false;
  if (quantising.scale != kNoValue) return same_number(graph, makers, quantising.scale, scale);
  return number && static_cast<float>(quantising.step) == static_cast<float>(*number);
}

/// Whether a node's results are elements of its one input.
bool is_of_its_input(const Node& node) {
  const Moves how = moves_of(node.op);
  const bool others = how == Moves::kNothing || how == Moves::kMeans || how == Moves::kPads;
  return !others && node.all_inputs().size() == 1;
}

/// Whether the range holds every integer of the tensor.
bool holds(const Graph& graph, const Makers& makers, const Quantising& quantising, ValueId q) {
  const bool is_signed = graph.value(q).dtype == DType::kI8;
  int64_t least = is_signed ? -128 : 0, most = is_signed ? 127 : 255;
  for (const Node* node = makers.maker(q); node; node = makers.maker(q)) {
    if (node->op == "tv::quantize") {
      least = node->integer("quant_min");
      most = node->integer("quant_max");
      break;
    }
    if (!is_of_its_input(*node)) break;
    q = node->all_inputs().at(0);
  }
  return quantising.least <= least && most <= quantising.most;
}

}  // namespace

std::optional<Quantised> of_one_scale(const Graph& graph, const Makers& makers, ValueId value) {
  const Node* node = makers.maker(value, "tv::dequantize");
  if (!node) return std::nullopt;
  const Quantised q = quantised_of(*node);
  const DType dtype = graph.value(q.input).dtype;
  const bool bytes = q.bits == 8 && (dtype == DType::kI8 || dtype == DType::kU8);
  if (!q.has_integers() || !bytes || q.scale == kNoValue) return std::nullopt;
  return is_single(graph, q.scale) && is_single(graph, q.zero_point) ? std::optional(q)
                                                                     : std::nullopt;
}

std::optional<Arg> zero_point_arg(const Graph& graph, const Makers& makers, const char* name,
                                  ValueId zero_point, DType dtype) {
  const bool is_signed = dtype == DType::kI8;
  if (const auto zero = number_of(graph, makers, zero_point)) {
    const bool fits = *zero >= (is_signed ? -128 : 0) && *zero <= (is_signed ? 127 : 255);
    return fits ? std::optional(attr_arg(name, Expr(static_cast<int64_t>(*zero)))) : std::nullopt;
  }
  // Of weights every frontend refuses others than the integers can be.
  const ValueId root = root_of(makers, zero_point);
  const bool fits =
      graph.value(zero_point).dtype == dtype ||
      (is_integer(graph.value(root).dtype) && graph.value(root).kind == ValueKind::kWeight);
  return fits ? std::optional(tensor_arg(name, zero_point)) : std::nullopt;
}

bool undoes(const Graph& graph, const Makers& makers, const Quantising& quantising,
            const Quantised& q) {
  return graph.value(quantising.input).dtype == DType::kF32 &&
         same_scale(graph, makers, quantising, q.scale) &&
         same_number(graph, makers, quantising.zero_point, q.zero_point) &&
         holds(graph, makers, quantising, q.input);
}

bool is_positive(const Graph& graph, const Makers& makers, ValueId scale) {
  if (const auto number = number_of(graph, makers, scale))
    return std::isfinite(*number) && *number > 0;
  const ValueId root = root_of(makers, scale);
  if (root == kNoValue || graph.value(root).kind != ValueKind::kWeight) return false;
  return std::ranges::any_of(graph.nodes, [&](const Node& node) {
    const ValueId step = node.op == "tv::quantize" ? node.input("scale") : kNoValue;
    return step != kNoValue && root_of(makers, step) == root;
  });
}

}  // namespace tv
