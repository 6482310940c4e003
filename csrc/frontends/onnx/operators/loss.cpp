// Losses.

#include "csrc/frontends/onnx/kit/host_ops.h"

namespace tv::onnx {
namespace {

// Minus the log probability of each target, weighted; ignored targets count 0.
struct Loss {
  Tensor each, weight;
};

Loss negative_log_likelihood(OpContext& c, const Tensor& log_probability) {
  Emitter& e = c.e;
  const Tensor wide = e.cast(c.in(1), DType::kI64);
  const DType dtype = log_probability.dtype;
  const Shape& all = log_probability.shape;
  if (all.size() != wide.shape.size() + 1) throw Error(ErrorKind::kUser, "targets of another rank");
  for (size_t d = 0; d < wide.shape.size(); ++d) e.equal(wide.shape[d], all[d == 0 ? 0 : d + 1]);
  if (c.has(2)) e.equal(c.in(2).shape.at(0), all[1]);
  Tensor target = wide, counted;
  if (c.has_attr("ignore_index")) {
    counted = e.with("ne", wide, static_cast<double>(c.i("ignore_index", 0)));
    target = e.where(counted, wide, e.number(DType::kI64, 0));
  }
  const Tensor picked = e.squeeze(e.gather(log_probability, 1, e.unsqueeze(target, 1)), 1);
  Tensor weight;
  if (c.has(2)) {
    const Expr count = product(target.shape);
    weight = e.reshape(e.index_select(c.in(2), 0, e.reshape(target, {count})), target.shape);
  }
  if (counted.present) {
    const Tensor zero = e.number(dtype, 0);
    weight = weight.present ? e.where(counted, weight, zero) : e.cast(counted, dtype);
  }
  Tensor each = e.unary("neg", picked);
  if (weight.present) {
    each = e.mul(each, weight);
    // An ignored target's own probability may be -inf.
    if (counted.present) each = e.where(counted, each, e.number(dtype, 0));
  }
  return {each, weight};
}

Tensor reduced(OpContext& c, const Loss& loss) {
  Emitter& e = c.e;
  const std::string reduction = c.s("reduction", "mean");
  if (reduction == "none") return loss.each;
  if (reduction == "sum") return e.reduce("sum", loss.each, {}, false);
  if (reduction != "mean") throw Error(ErrorKind::kUser, "reduction " + reduction);
  if (!loss.weight.present) return e.reduce("mean", loss.each, {}, false);
  return e.div(e.reduce("sum", loss.each, {}, false), e.reduce("sum", loss.weight, {}, false));
}

void nll_loss(OpContext& c) { c.out(0, reduced(c, negative_log_likelihood(c, c.in(0)))); }

void cross_entropy_loss(OpContext& c) {
  const Tensor log_probability = c.e.softmax(c.in(0), 1, true);
  c.out(0, reduced(c, negative_log_likelihood(c, log_probability)));
  if (c.wants(1)) c.out(1, log_probability);
}

const RegisterOnnx ops{{"NegativeLogLikelihoodLoss", nll_loss},
                       {"SoftmaxCrossEntropyLoss", cross_entropy_loss}};

}  // namespace
}  // namespace tv::onnx
