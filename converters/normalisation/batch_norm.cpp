// Batch norm as reductions and pointwise steps. The inference form folds into the convolution
// before it where there is one (csrc/passes/simplify/fold_batch_norm.cpp), so what arrives here is
// the rest.

#include "converters/kit/reduction.h"
#include "converters/kit/steps.h"

namespace tv {
namespace {

/// Mean and variance as (1, C, 1, …), float32, and the number of elements that each is made of.
struct Statistics {
  ValueId mean, variance;
};

Shape channel_shape(const Shape& shape) {
  Shape out(shape.size(), Expr(1));
  out.at(1) = shape.at(1);
  return out;
}

std::vector<int64_t> all_but_channels(const Shape& shape) {
  std::vector<int64_t> dims;
  for (size_t d = 0; d < shape.size(); ++d) {
    if (d != 1) dims.push_back(static_cast<int64_t>(d));
  }
  return dims;
}

Statistics batch_statistics(Rewriter& r, ValueId x) {
  const Shape shape = r.graph().value(x).shape;
  const std::vector<int64_t> dims = all_but_channels(shape);
  const Reduction mean_of{
      .kind = "sum", .dims = dims, .keepdim = true, .divisor = count_in(shape, dims)};
  const ValueId mean = add_reduce(r, x, mean_of, DType::kF32);
  const ValueId distance = r.pointwise("sub", {x, mean}, DType::kF32);
  return {mean,
          add_reduce(r, r.pointwise("square", {distance}, DType::kF32), mean_of, DType::kF32)};
}

ValueId per_channel(Rewriter& r, ValueId v, const Shape& shape) {
  return r.reshape(r.cast(v, DType::kF32), channel_shape(shape));
}

/// (x - mean) · rstd · weight + bias; returns the result and rstd.
std::pair<ValueId, ValueId> normalise(const NodeContext& c, Rewriter& r, ValueId x, Statistics s) {
  const Shape shape = c.shape("input");
  const ValueId biased = r.pointwise("add", {s.variance}, DType::kF32, {c.node.number("eps")});
  const ValueId rstd = r.pointwise("rsqrt", {biased}, DType::kF32);
  ValueId y = r.pointwise("sub", {x, s.mean}, DType::kF32);
  ValueId scale = rstd;
  if (c.node.has("weight")) {
    scale = r.pointwise("mul", {rstd, per_channel(r, c.node.input("weight"), shape)}, DType::kF32);
  }
  y = r.pointwise("mul", {y, scale}, DType::kF32);
  if (c.node.has("bias")) {
    y = r.pointwise("add", {y, per_channel(r, c.node.input("bias"), shape)}, DType::kF32);
  }
  return {r.cast(y, c.output().dtype), rstd};
}

/// Says that output `index`, where there is one, is `value` in that output's shape and dtype.
void replace(const NodeContext& c, Rewriter& r, size_t index, ValueId value) {
  if (index >= c.node.outputs.size() || c.node.outputs[index] == kNoValue) return;
  const Value out = c.graph.value(c.node.outputs.at(index));
  r.replace(index, r.cast(r.reshape(value, out.shape), out.dtype));
}

void inference(const NodeContext& c, Rewriter& r) {
  const Shape shape = c.shape("input");
  const ValueId x = r.cast(c.node.input("input"), DType::kF32);
  const Statistics s{per_channel(r, c.node.input("running_mean"), shape),
                     per_channel(r, c.node.input("running_var"), shape)};
  r.replace(0, normalise(c, r, x, s).first);
}

/// running · (1 - momentum) + batch · momentum · factor
ValueId running(const NodeContext& c, Rewriter& r, const char* arg, ValueId batch, double factor) {
  const double momentum = c.node.number("momentum");
  const ValueId old = r.cast(c.node.input(arg), DType::kF32);
  const ValueId flat = r.reshape(batch, r.graph().value(old).shape);
  const ValueId kept = r.pointwise("mul", {old}, DType::kF32, {1 - momentum});
  const ValueId fresh = r.pointwise("mul", {flat}, DType::kF32, {momentum * factor});
  return r.pointwise("add", {kept, fresh}, DType::kF32);
}

/// `first_running`: the output that holds the new running mean, the variance after it; 0: none.
void training(const NodeContext& c, Rewriter& r, size_t first_running) {
  const Shape shape = c.shape("input");
  const ValueId x = r.cast(c.node.input("input"), DType::kF32);
  const Statistics s = batch_statistics(r, x);
  const auto [y, rstd] = normalise(c, r, x, s);
  r.replace(0, y);
  replace(c, r, 1, s.mean);
  replace(c, r, 2, rstd);
  if (first_running == 0) return;
  const auto count =
      static_cast<double>(count_in(shape, all_but_channels(shape)).constant().value());
  replace(c, r, first_running, running(c, r, "running_mean", s.mean, 1));
  replace(c, r, first_running + 1, running(c, r, "running_var", s.variance, count / (count - 1)));
  // Reserved space of the form that has it: nothing is kept there.
  if (first_running == 4 && is_used(c.graph, c.node.outputs.at(3))) {
    const Value out = c.graph.value(c.node.outputs.at(3));
    r.replace(3, r.add("aten::full", {attr_arg("size", out.shape), attr_arg("fill_value", 0.0)},
                       out.dtype, out.shape));
  }
}

/// A functional form without training: running statistics stay, and there are no batch's to keep.
void evaluation(const NodeContext& c, Rewriter& r, size_t first_running) {
  const Shape shape = c.shape("input");
  const ValueId x = r.cast(c.node.input("input"), DType::kF32);
  const Statistics s{per_channel(r, c.node.input("running_mean"), shape),
                     per_channel(r, c.node.input("running_var"), shape)};
  const auto [y, rstd] = normalise(c, r, x, s);
  r.replace(0, y);
  for (size_t i = 1; i < first_running; ++i) {
    if (c.node.outputs.at(i) == kNoValue) continue;
    const Value out = c.graph.value(c.node.outputs.at(i));
    if (out.shape == Shape{shape.at(1)} && i < 3) {
      replace(c, r, i, i == 1 ? s.mean : rstd);
    } else {
      r.replace(i, r.add("aten::full", {attr_arg("size", out.shape), attr_arg("fill_value", 0.0)},
                         out.dtype, out.shape));
    }
  }
  replace(c, r, first_running, c.node.input("running_mean"));
  replace(c, r, first_running + 1, c.node.input("running_var"));
}

bool is_evaluation(const Node& node) {
  return node.find("training") != nullptr && !node.flag("training");
}

std::string inference_unsupported(const NodeContext& c) {
  if (c.shape("input").size() < 2) return "[" + c.node.op + "] the input needs a channel dimension";
  return floats_only(c, "input");
}

std::string training_unsupported(const NodeContext& c) {
  if (is_evaluation(c.node)) {
    return c.node.has("running_mean") ? inference_unsupported(c)
                                      : "[" + c.node.op + "] without statistics of any kind";
  }
  const Shape& shape = c.shape("input");
  if (shape.size() < 2) return inference_unsupported(c);
  if (!count_in(shape, all_but_channels(shape)).constant() && c.node.has("running_mean")) {
    return "[" + c.node.op + "] running statistics of a dynamic number of elements";
  }
  return floats_only(c, "input");
}

Converter inference_form(std::string op) {
  return {.op = std::move(op),
          .unsupported = [](const NodeContext& c) -> std::string {
            if (c.node.flag("training") || !c.node.has("running_mean")) {
              return "[" + c.node.op + "] changes its running statistics in place";
            }
            return inference_unsupported(c);
          },
          .expand = inference};
}

/// What a model in 16 bits has: statistics scale whole channels, and cost nothing in float32, as
/// they become a multiply-add.
Converter with_float32_statistics(Converter converter) {
  converter.float32_args = {"weight", "bias", "running_mean", "running_var"};
  return converter;
}

Converter training_form(std::string op, size_t first_running) {
  return {.op = std::move(op),
          .unsupported = training_unsupported,
          .expand = [first_running](const NodeContext& c, Rewriter& r) {
            if (is_evaluation(c.node) && first_running > 0) {
              evaluation(c, r, first_running);
            } else {
              training(c, r, first_running);
            }
          }};
}

/// Of the result, and of `others`: statistics.
TypeRule types(const std::string& others = "") {
  return "input [n c *s], weight [c], bias [c], running_mean [c], running_var [c] -> [n c *s]" +
         others;
}

const RegisterConverter batch_norms{
    with_float32_statistics(
        typed(inference_form("aten::_native_batch_norm_legit_no_training"), types(", [.], [.]"))),
    typed(inference_form("aten::batch_norm"), types()),
    typed(inference_form("aten::native_batch_norm"), types(", [.], [.]")),
    typed(inference_form("aten::cudnn_batch_norm"), types(", [.], [.]")),
    typed(inference_form("aten::_native_batch_norm_legit"), types(", [.], [.]")),
    typed(training_form("aten::_native_batch_norm_legit.no_stats", 0), types(", [.], [.]")),
    typed(training_form("aten::_native_batch_norm_legit_functional", 3),
          types(", [.], [.], [c], [c]")),
    typed(training_form("aten::_batch_norm_with_update_functional", 4),
          types(", [.], [.], [.], [c], [c]")),
};

}  // namespace
}  // namespace tv
