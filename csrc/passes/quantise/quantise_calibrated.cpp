#include "csrc/passes/quantise/quantise_calibrated.h"

#include <algorithm>
#include <limits>
#include <map>
#include <tuple>

#include "csrc/graph/edit.h"
#include "csrc/graph/quantised.h"
#include "csrc/graph/quantising.h"
#include "csrc/passes/kit/constants_first.h"
#include "csrc/passes/kit/makers.h"
#include "csrc/passes/kit/product_operands.h"
#include "csrc/passes/quantise/calibrate.h"
#include "csrc/passes/quantise/smooth_inputs.h"
#include "csrc/passes/simplify/simplify.h"
#include "csrc/rewriter.h"
#include "runtime/base/error.h"

namespace tv {
namespace {

constexpr double kMost = 127;

bool is_of_calibration(const Arg& arg) {
  return arg.name == kInputLargest || arg.name == kInputMeans || arg.name == kSmoothAlpha ||
         arg.name == kInt8Required;
}

const std::vector<double>& numbers(const Node& node, const char* name) {
  return std::get<std::vector<double>>(node.arg(name).attr);
}

class Quantiser {
 public:
  explicit Quantiser(Graph graph)
      : graph_(std::move(graph)), quantisable_(graph_), makers_(graph_) {}

  Graph run() {
    const std::vector<Node> nodes = graph_.nodes;
    for (const Node& node : nodes) {
      if (node.input_scale == 0 || !node.has(kInputLargest)) continue;
      if (const auto operands = quantisable_.of(node)) {
        smoothed_[group_of(node, *operands)].push_back(
            {before_cast(operands->weight), operands->channels});
      }
    }
    for (const Node& node : nodes) {
      const auto operands = node.input_scale > 0 ? quantisable_.of(node) : std::nullopt;
      Node changed = node;
      changed.input_scale = 0;
      std::erase_if(changed.args, is_of_calibration);
      if (operands) {
        quantise(changed, node, *operands);
      } else if (node.has(kInt8Required)) {
        throw Error(ErrorKind::kUnsupported, "[" + node.name +
                                                 "] is required in int8, and is no product of "
                                                 "integers as it was compiled");
      }
      out_.push_back(std::move(changed));
    }
    graph_.nodes = std::move(out_);
    make_names_unique(graph_);
    return std::move(graph_);
  }

 private:
  /// Products with one of these have one smoothing: an input, and what is known of its channels.
  using Group = std::tuple<ValueId, std::vector<double>, double>;

  struct Weight {
    ValueId dequantised = kNoValue;
    RoundedWeight rounded;
  };

  /// Puts quantised tensors in place of the node's operands.
  void quantise(Node& changed, const Node& node, const Quantisable& operands) {
    Rewriter rw(graph_, node, out_);
    const Smoothing* smoothing = smoothing_for(rw, node, operands);
    const ValueId input = smoothing ? smoothed_input(rw, operands.input, *smoothing)
                                    : input_of(rw, operands.input, node.input_scale);
    const Weight weight = weight_of(rw, operands, smoothing);
    for (Arg& arg : changed.args) {
      if (arg.name == "bias" || (node.op == "aten::addmm" && arg.name == "self")) continue;
      for (ValueId& value : arg.values) {
        if (value == operands.input) value = input;
        if (value == operands.weight) value = weight.dequantised;
      }
    }
    if (!node.has(kInputMeans)) return;
    ValueId means = floats_of(rw, numbers(node, kInputMeans));
    if (smoothing) means = rw.pointwise("div", {means, smoothing->factors}, DType::kF32);
    const int64_t groups = node.has("groups") ? node.integer("groups") : 1;
    add_to_bias(rw, changed, bias_correction(rw, weight.rounded, means, groups));
  }

  void add_to_bias(Rewriter& rw, Node& changed, ValueId correction) const {
    if (changed.op == "aten::mm" || changed.op == "aten::matmul") {
      const ValueId weight = changed.input(changed.op == "aten::mm" ? "mat2" : "other");
      changed.args = {tensor_arg("input", changed.input("self")),
                      tensor_arg("weight", rw.permute(weight, {1, 0})),
                      tensor_arg("bias", kNoValue)};
      changed.op = "aten::linear";
    }
    const char* name = changed.op == "aten::addmm" ? "self" : "bias";
    const ValueId bias = changed.input(name);
    const DType dtype = graph_.value(changed.outputs.at(0)).dtype;
    if (bias != kNoValue) {
      correction = rw.pointwise("add", {bias, correction}, DType::kF32);
    }
    std::erase_if(changed.args, [&](const Arg& arg) { return arg.name == name; });
    changed.args.push_back(tensor_arg(name, rw.cast(correction, dtype)));
  }

  static Group group_of(const Node& node, const Quantisable& operands) {
    return {operands.input, numbers(node, kInputLargest), node.number(kSmoothAlpha)};
  }

  /// That of the node's group; null where it has none.
  const Smoothing* smoothing_for(Rewriter& rw, const Node& node, const Quantisable& operands) {
    if (!node.has(kInputLargest)) return nullptr;
    const Group group = group_of(node, operands);
    const auto [at, fresh] = smoothings_.try_emplace(group);
    if (fresh) {
      at->second = smoothing_of(rw, std::get<1>(group), std::get<2>(group), smoothed_.at(group));
    }
    return &at->second;
  }

  ValueId smoothed_input(Rewriter& rw, ValueId x, const Smoothing& smoothing) const {
    const Value whole = graph_.value(x);
    const ValueId step = rw.pointwise("mul", {smoothing.factors, smoothing.scale}, DType::kF32);
    const ValueId steps = rw.pointwise("div", {x, step}, DType::kF32);
    const ValueId scale = rw.reshape(smoothing.scale, Shape(whole.shape.size(), Expr(1)));
    return dequantised(rw, integers(rw, steps, -kMost - 1), scale, whole);
  }

  ValueId input_of(Rewriter& rw, ValueId x, double scale) const {
    const Value whole = graph_.value(x);
    const Shape one(whole.shape.size(), Expr(1));
    const ValueId q = rw.add("tv::quantize",
                             quantising_args(Quantising{.input = x,
                                                        .step = scale,
                                                        .least = static_cast<int64_t>(-kMost - 1),
                                                        .most = static_cast<int64_t>(kMost),
                                                        .divides = true}),
                             DType::kI8, whole.shape);
    const ValueId scales = rw.add(
        "aten::full",
        {attr_arg("size", one), attr_arg("fill_value", scale), attr_arg("dtype", DType::kF32),
         attr_arg("layout", {}), attr_arg("device", {}), attr_arg("pin_memory", {})},
        DType::kF32, one);
    return dequantised(rw, q, scales, whole);
  }

  Weight weight_of(Rewriter& rw, const Quantisable& operands, const Smoothing* smoothing) const {
    const Value whole = graph_.value(operands.weight);
    ValueId w = before_cast(operands.weight);
    if (smoothing) {
      Shape across(whole.shape.size(), Expr(1));
      across.at(1 - operands.channels) = whole.shape.at(1 - operands.channels);
      w = rw.pointwise("mul", {w, rw.reshape(smoothing->factors, across)}, DType::kF32);
    }
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
    const ValueId steps = rounded(rw, rw.pointwise("div", {w, scales}, DType::kF32), -kMost);
    return {dequantised(rw, bytes(rw, steps), scales, whole),
            {.exact = w, .scales = scales, .steps = steps, .channels = operands.channels}};
  }

  /// A weight as the model has it, before lower_precision rounds it.
  ValueId before_cast(ValueId weight) const {
    const Node* cast = makers_.maker(weight, "aten::_to_copy");
    const bool wide = cast && graph_.value(cast->input("self")).dtype == DType::kF32;
    return wide ? cast->input("self") : weight;
  }

  ValueId rounded(Rewriter& rw, ValueId steps, double least) const {
    const Shape shape = graph_.value(steps).shape;
    const ValueId whole = rw.add("aten::round", {tensor_arg("self", steps)}, DType::kF32, shape);
    return rw.pointwise("clamp", {whole}, DType::kF32, {least, kMost});
  }

  ValueId bytes(Rewriter& rw, ValueId whole) const {
    return rw.cast(rw.cast(whole, DType::kI32), DType::kI8);
  }

  ValueId integers(Rewriter& rw, ValueId steps, double least) const {
    return bytes(rw, rounded(rw, steps, least));
  }

  ValueId dequantised(Rewriter& rw, ValueId q, ValueId scales, const Value& like) const {
    return rw.add("tv::dequantize", arguments_of({.input = q, .scale = scales}), like.dtype,
                  like.shape);
  }

  Graph graph_;
  const QuantisableNodes quantisable_;
  const Makers makers_;
  std::vector<Node> out_;
  std::map<Group, std::vector<SmoothedWeight>> smoothed_;
  std::map<Group, Smoothing> smoothings_;
};

}  // namespace

Graph quantise_calibrated(Graph graph) {
  const auto is_calibrated = [](const Node& node) {
    return node.input_scale > 0 || std::ranges::any_of(node.args, is_of_calibration);
  };
  if (std::ranges::none_of(graph.nodes, is_calibrated)) return graph;
  const auto is_smoothed = [](const Node& node) { return node.has(kInputLargest); };
  if (std::ranges::any_of(graph.nodes, is_smoothed)) {
    // Equal views of an input are one value then, as its readers are to share factors.
    graph = simplify(std::move(graph));
    put_constants_first(graph);
  }
  return Quantiser(std::move(graph)).run();
}

}  // namespace tv
