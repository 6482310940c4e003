#include "csrc/passes/quantise_calibrated.h"

#include <algorithm>
#include <limits>

#include "csrc/graph/edit.h"
#include "csrc/graph/quantised.h"
#include "csrc/passes/makers.h"
#include "csrc/passes/product_operands.h"
#include "csrc/rewriter.h"

namespace tv {
namespace {

constexpr double kMost = 127;

class Quantiser {
 public:
  explicit Quantiser(Graph graph)
      : graph_(std::move(graph)), quantisable_(graph_), makers_(graph_) {}

  Graph run() {
    const std::vector<Node> nodes = graph_.nodes;
    for (const Node& node : nodes) {
      const auto operands = node.input_scale > 0 ? quantisable_.of(node) : std::nullopt;
      Node changed = node;
      changed.input_scale = 0;
      if (operands) quantise(changed, node, *operands);
      out_.push_back(std::move(changed));
    }
    graph_.nodes = std::move(out_);
    make_names_unique(graph_);
    return std::move(graph_);
  }

 private:
  /// Puts quantised tensors in place of the node's operands.
  void quantise(Node& changed, const Node& node, const Quantisable& operands) {
    Rewriter rw(graph_, node, out_);
    const ValueId input = input_of(rw, operands.input, node.input_scale);
    const ValueId weight = weight_of(rw, operands);
    for (Arg& arg : changed.args) {
      if (arg.name == "bias" || (node.op == "aten::addmm" && arg.name == "self")) continue;
      for (ValueId& value : arg.values) {
        if (value == operands.input) value = input;
        if (value == operands.weight) value = weight;
      }
    }
  }

  ValueId input_of(Rewriter& rw, ValueId x, double scale) const {
    const Value whole = graph_.value(x);
    const Shape one(whole.shape.size(), Expr(1));
    const ValueId steps = rw.pointwise("div", {x}, DType::kF32, {scale});
    const ValueId scales = rw.add(
        "aten::full",
        {attr_arg("size", one), attr_arg("fill_value", scale), attr_arg("dtype", DType::kF32),
         attr_arg("layout", {}), attr_arg("device", {}), attr_arg("pin_memory", {})},
        DType::kF32, one);
    return dequantised(rw, integers(rw, steps, -kMost - 1), scales, whole);
  }

  ValueId weight_of(Rewriter& rw, const Quantisable& operands) const {
    const Value whole = graph_.value(operands.weight);
    const ValueId w = before_cast(operands.weight);
    std::vector<Expr> dims;
    Shape channels(whole.shape.size(), Expr(1));
    for (size_t d = 0; d < whole.shape.size(); ++d) {
      if (d == operands.channels) {
        channels[d] = whole.shape[d];
      } else {
        dims.emplace_back(static_cast<int64_t>(d));
      }
    }
    const ValueId magnitudes =
        rw.add("aten::abs", {tensor_arg("self", w)}, graph_.value(w).dtype, whole.shape);
    const ValueId most =
        rw.add("aten::amax",
               {tensor_arg("self", magnitudes), attr_arg("dim", dims), attr_arg("keepdim", true)},
               graph_.value(w).dtype, channels);
    // A channel of zeros has some scale, too.
    const ValueId scales =
        rw.pointwise("clamp", {rw.pointwise("div", {most}, DType::kF32, {kMost})}, DType::kF32,
                     {std::numeric_limits<float>::min(), std::numeric_limits<float>::max()});
    const ValueId steps = rw.pointwise("div", {w, scales}, DType::kF32);
    return dequantised(rw, integers(rw, steps, -kMost), scales, whole);
  }

  /// A weight as the model has it, before lower_precision rounds it.
  ValueId before_cast(ValueId weight) const {
    const Node* cast = makers_.maker(weight, "aten::_to_copy");
    const bool wide = cast && graph_.value(cast->input("self")).dtype == DType::kF32;
    return wide ? cast->input("self") : weight;
  }

  ValueId integers(Rewriter& rw, ValueId steps, double least) const {
    const Shape shape = graph_.value(steps).shape;
    ValueId whole = rw.add("aten::round", {tensor_arg("self", steps)}, DType::kF32, shape);
    whole = rw.pointwise("clamp", {whole}, DType::kF32, {least, kMost});
    return rw.cast(rw.cast(whole, DType::kI32), DType::kI8);
  }

  ValueId dequantised(Rewriter& rw, ValueId q, ValueId scales, const Value& like) const {
    return rw.add("tv::dequantize", arguments_of({.input = q, .scale = scales}), like.dtype,
                  like.shape);
  }

  Graph graph_;
  const QuantisableNodes quantisable_;
  const Makers makers_;
  std::vector<Node> out_;
};

}  // namespace

Graph quantise_calibrated(Graph graph) {
  const auto is_calibrated = [](const Node& node) { return node.input_scale > 0; };
  if (std::ranges::none_of(graph.nodes, is_calibrated)) return graph;
  return Quantiser(std::move(graph)).run();
}

}  // namespace tv
