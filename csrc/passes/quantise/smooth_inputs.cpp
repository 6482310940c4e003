#include "csrc/passes/quantise/smooth_inputs.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

namespace tv {
namespace {

constexpr size_t kFloatsOfALaunch = 256;
constexpr double kSteps = 127;
// Factors stay where float32 holds a weight's products with them.
constexpr double kLeastFactor = 0x1p-40, kLeastWeight = 1e-30;

ValueId reduced(Rewriter& rw, const char* op, ValueId x, std::vector<Expr> dims) {
  const Value whole = rw.graph().value(x);
  Shape shape;
  for (size_t d = 0; d < whole.shape.size(); ++d) {
    if (std::ranges::find(dims, Expr(static_cast<int64_t>(d))) == dims.end()) {
      shape.push_back(whole.shape[d]);
    }
  }
  return rw.add(op,
                {tensor_arg("self", x), attr_arg("dim", std::move(dims)),
                 attr_arg("keepdim", false), attr_arg("dtype", {})},
                whole.dtype, std::move(shape));
}

/// The largest magnitude of each channel of the sum.
ValueId largest_of(Rewriter& rw, const SmoothedWeight& w) {
  const Value whole = rw.graph().value(w.weight);
  const ValueId magnitudes =
      rw.add("aten::abs", {tensor_arg("self", w.weight)}, whole.dtype, whole.shape);
  const ValueId most =
      reduced(rw, "aten::amax", magnitudes, {Expr(static_cast<int64_t>(w.channels))});
  return rw.cast(most, DType::kF32);
}

}  // namespace

ValueId floats_of(Rewriter& rw, const std::vector<double>& values) {
  std::vector<ValueId> parts;
  for (size_t from = 0; from < values.size(); from += kFloatsOfALaunch) {
    const auto part =
        std::span(values).subspan(from, std::min(kFloatsOfALaunch, values.size() - from));
    parts.push_back(rw.add("tv::floats",
                           {attr_arg("values", std::vector<double>(part.begin(), part.end()))},
                           DType::kF32, {Expr(static_cast<int64_t>(part.size()))}));
  }
  if (parts.size() == 1) return parts[0];
  return rw.add("aten::cat", {tensor_list_arg("tensors", parts), attr_arg("dim", Expr(0))},
                DType::kF32, {Expr(static_cast<int64_t>(values.size()))});
}

Smoothing smoothing_of(Rewriter& rw, const std::vector<double>& largest, double alpha,
                       const std::vector<SmoothedWeight>& weights) {
  std::vector<double> powers;
  for (const double x : largest) powers.push_back(std::pow(x, alpha));
  ValueId of_weights = kNoValue;
  for (const SmoothedWeight& w : weights) {
    const ValueId one = largest_of(rw, w);
    of_weights =
        of_weights == kNoValue ? one : rw.pointwise("maximum", {of_weights, one}, DType::kF32);
  }
  of_weights = rw.pointwise("clamp", {of_weights}, DType::kF32,
                            {kLeastWeight, std::numeric_limits<float>::max()});
  of_weights = rw.pointwise("pow", {of_weights}, DType::kF32, {alpha - 1});
  ValueId factors = rw.pointwise("mul", {floats_of(rw, powers), of_weights}, DType::kF32);
  factors = rw.pointwise("clamp", {factors}, DType::kF32, {kLeastFactor, 1 / kLeastFactor});
  const ValueId seen = floats_of(rw, largest);
  const ValueId ones = floats_of(rw, std::vector<double>(largest.size(), 1.0));
  factors = rw.pointwise("where", {rw.pointwise("gt", {seen}, DType::kBool, {0}), factors, ones},
                         DType::kF32);
  const ValueId most =
      reduced(rw, "aten::amax", rw.pointwise("div", {seen, factors}, DType::kF32), {Expr(0)});
  ValueId scale = rw.pointwise("div", {most}, DType::kF32, {kSteps});
  scale = rw.pointwise("clamp", {scale}, DType::kF32,
                       {std::numeric_limits<float>::min(), std::numeric_limits<float>::max()});
  return {factors, rw.reshape(scale, {Expr(1)})};
}

ValueId bias_correction(Rewriter& rw, const RoundedWeight& weight, ValueId means, int64_t groups) {
  const Shape whole = rw.graph().value(weight.exact).shape;
  const ValueId held = rw.pointwise("mul", {weight.steps, weight.scales}, DType::kF32);
  ValueId lost = rw.pointwise("sub", {weight.exact, held}, DType::kF32);
  if (whole.size() == 2) {
    const bool rows = weight.channels == 0;
    const Expr steps = whole[rows ? 1 : 0];
    means = rw.reshape(means, rows ? Shape{Expr(1), steps} : Shape{steps, Expr(1)});
    lost = rw.pointwise("mul", {lost, means}, DType::kF32);
    return reduced(rw, "aten::sum.dim_IntList", lost, {Expr(rows ? 1 : 0)});
  }
  // Of a convolution: [groups, channels of one, of the input, places].
  const Expr own = whole[0].constant().value() / groups;
  const Expr places = product(std::span(whole).subspan(2));
  lost = rw.reshape(lost, {Expr(groups), own, whole[1], places});
  means = rw.reshape(means, {Expr(groups), Expr(1), whole[1], Expr(1)});
  lost = rw.pointwise("mul", {lost, means}, DType::kF32);
  lost = reduced(rw, "aten::sum.dim_IntList", lost, {Expr(2), Expr(3)});
  return rw.reshape(lost, {whole[0]});
}

}  // namespace tv
