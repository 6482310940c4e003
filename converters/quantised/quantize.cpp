// tv::quantize, as pointwise nodes.

#include "converters/kit/steps.h"
#include "csrc/graph/quantising.h"
#include "csrc/rewriter.h"

namespace tv {
namespace {

/// The input in steps of the scale, rounded.
ValueId quantize_steps(Rewriter& rw, const Quantising& q, const Shape& shape) {
  const auto whole = DType::kF32;
  if (q.divides) {
    if (q.scale == kNoValue) return rw.pointwise("div_round", {q.input}, whole, {q.step});
    return rw.pointwise("div_round", {q.input, rw.cast(q.scale, whole)}, whole);
  }
  const ValueId steps =
      q.scale == kNoValue
          ? rw.pointwise("mul", {q.input}, whole, {1.0 / q.step})
          : rw.pointwise("mul", {q.input, rw.pointwise("rdiv", {q.scale}, whole, {1.0})}, whole);
  return rw.add("aten::round", {tensor_arg("self", steps)}, whole, shape);
}

void expand_quantize(const NodeContext& c, Rewriter& rw) {
  const Quantising q = quantising_of(c.node);
  ValueId steps = quantize_steps(rw, q, c.output().shape);
  // Of integers 0 and -0 are the same, so that 0 need not be added.
  if (const auto zero = filled_with(rw.graph(), q.zero_point)) {
    if (*zero != 0) steps = rw.pointwise("add", {steps}, DType::kF32, {*zero});
  } else if (q.zero_point != kNoValue) {
    steps = rw.pointwise("add", {steps, q.zero_point}, DType::kF32);
  }
  steps = rw.pointwise("clamp", {steps}, DType::kF32,
                       {static_cast<double>(q.least), static_cast<double>(q.most)});
  rw.replace(0, rw.cast(rw.cast(steps, DType::kI32), c.output().dtype));
}

std::string quantize_refusal(const NodeContext& c) {
  const std::string at = "[" + c.node.op + "] ";
  if (!is_float(c.dtype("input"))) return at + "the input is not of floats";
  const bool number = c.node.has("step"), tensor = c.node.has("scale");
  if (number == tensor) return at + "wants one scale, a tensor or a number";
  for (const char* arg : {"scale", "zero_point"}) {
    if (c.node.has(arg) && !(product(c.shape(arg)) == Expr(1))) {
      return at + arg + " is not of one element";
    }
  }
  const DType dtype = c.output().dtype;
  return dtype == DType::kI8 || dtype == DType::kU8 ? "" : at + "gives integers of 8 bits";
}

const RegisterConverter quantize_entry{{.op = "tv::quantize",
                                        .unsupported = quantize_refusal,
                                        .expand = expand_quantize,
                                        .keeps_float32 = true,
                                        .types = TypeRule("input [*s] -> [*s]"),
                                        .schema =
                                            "tv::quantize(Tensor input, Tensor? scale, Tensor? "
                                            "zero_point, float? step, int quant_min, "
                                            "int quant_max, bool divides) -> Tensor"}};

}  // namespace
}  // namespace tv
