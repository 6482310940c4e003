// com.microsoft's activations, products and convolutions with what was fused into them (ONNX
// Runtime, docs/ContribOperators.md).

#include "csrc/frontends/onnx/kit/host_ops.h"
#include "csrc/frontends/onnx/kit/window.h"

namespace tv::onnx {
namespace {

Tensor gelu_of(Emitter& e, const Tensor& x, const char* approximate) {
  return e.node("aten::gelu", {e.arg("self", x), attr_arg("approximate", std::string(approximate))},
                x.dtype, x.shape);
}

/// x plus input i, where it is there.
Tensor biased(OpContext& c, const Tensor& x, size_t i) {
  return c.has(i) ? c.e.add(x, c.in(i)) : x;
}

void gelu(OpContext& c) {
  c.only({});
  const bool fast = c.type() == "FastGelu";
  c.out(0, gelu_of(c.e, biased(c, c.in(0), 1), fast ? "tanh" : "none"));
}

/// x sigmoid(alpha x)
void quick_gelu(OpContext& c) {
  c.only({"alpha"});
  const Tensor& x = c.in(0);
  c.out(0, c.e.mul(x, c.e.unary("sigmoid", c.e.with("mul", x, c.f("alpha", 1.702f)))));
}

void bias_add(OpContext& c) {
  c.only({});
  c.out(0, c.e.add(c.e.add(c.in(0), c.in(1)), c.in(2)));
}

/// The first half times the gelu of the second.
void bias_split_gelu(OpContext& c) {
  c.only({});
  const Tensor x = biased(c, c.in(0), 1);
  const auto width = x.shape.back().constant();
  if (!width || *width % 2) throw Error(ErrorKind::kUser, "want an even number of channels");
  const Tensor left = c.e.slice(x, x.rank() - 1, 0, *width / 2);
  const Tensor right = c.e.slice(x, x.rank() - 1, *width / 2, *width);
  c.out(0, c.e.mul(left, gelu_of(c.e, right, "none")));
}

/// Numbers of an activation, in its own order; those behind the ones that are given are
/// `otherwise`.
double parameter(const std::vector<double>& given, size_t i, double otherwise) {
  return i < given.size() ? given[i] : otherwise;
}

Tensor activated(Emitter& e, const Tensor& x, const std::string& name,
                 const std::vector<double>& p) {
  if (name.empty()) return x;
  if (name == "Relu") return e.unary("relu", x);
  if (name == "Sigmoid") return e.unary("sigmoid", x);
  if (name == "Tanh") return e.unary("tanh", x);
  if (name == "HardSwish") return e.unary("hardswish", x);
  if (name == "LeakyRelu") {
    return e.node("aten::leaky_relu",
                  {e.arg("self", x), attr_arg("negative_slope", parameter(p, 0, 0.01f))}, x.dtype,
                  x.shape);
  }
  if (name == "Clip" && p.size() == 2) return e.clamp(x, p[0], p[1]);
  if (name == "HardSigmoid") {
    const Tensor line = e.with("mul", x, parameter(p, 0, 0.2f));
    return e.clamp(e.with("add", line, parameter(p, 1, 0.5)), 0, 1);
  }
  refuse("the activation " + name);
}

// --- products ---

/// A's first dimension goes behind the batch's: (m, batch…, k) as (batch…, m, k).
Tensor with_batch_first(Emitter& e, const Tensor& x) {
  if (x.rank() < 3) throw Error(ErrorKind::kUser, "transBatch wants an operand of rank 3 or more");
  std::vector<int64_t> dims;
  for (int64_t d = 1; d < x.rank() - 1; ++d) dims.push_back(d);
  dims.insert(dims.end(), {0, x.rank() - 1});
  return e.permute(x, dims);
}

Tensor operand(OpContext& c, size_t i, const std::string& which) {
  Tensor x = c.in(i);
  if (c.i("transBatch" + which, 0) != 0) x = with_batch_first(c.e, x);
  if (c.i("trans" + which, 0) != 0 && x.rank() > 1) x = c.e.transpose(x, -2, -1);
  return x;
}

void fused_matmul(OpContext& c) {
  c.only({"alpha", "transA", "transB", "transBatchA", "transBatchB"});
  const Tensor y = c.e.matmul(operand(c, 0, "A"), operand(c, 1, "B"));
  const double alpha = c.f("alpha", 1);
  c.out(0, alpha == 1 ? y : c.e.with("mul", y, alpha));
}

void fused_gemm(OpContext& c) {
  Emitter& e = c.e;
  c.only({"alpha", "beta", "transA", "transB", "activation", "activation_alpha", "activation_beta",
          "activation_gamma"});
  if (c.in(0).rank() != 2 || c.in(1).rank() != 2) throw Error(ErrorKind::kUser, "want matrices");
  const double alpha = c.f("alpha", 1), beta = c.f("beta", 1);
  Tensor y = e.matmul(operand(c, 0, "A"), operand(c, 1, "B"));
  if (alpha != 1) y = e.with("mul", y, alpha);
  if (c.has(2) && beta != 0) y = e.add(y, beta == 1 ? c.in(2) : e.with("mul", c.in(2), beta));
  if (c.has_attr("activation_beta") && !c.has_attr("activation_alpha")) {
    refuse("an activation_beta without an activation_alpha");
  }
  std::vector<double> numbers;
  for (const char* name : {"activation_alpha", "activation_beta"}) {
    if (c.has_attr(name)) numbers.push_back(c.f(name, 0));
  }
  c.out(0, activated(e, y, c.s("activation", ""), numbers));
}

void gemm_fast_gelu(OpContext& c) {
  c.only({});
  c.out(0, gelu_of(c.e, biased(c, c.e.matmul(c.in(0), c.in(1)), 2), "tanh"));
}

// --- convolutions ---

void fused_conv(OpContext& c) {
  c.only({"activation", "activation_params", "auto_pad", "dilations", "group", "kernel_shape",
          "pads", "strides"});
  Tensor y = convolved(c, c.in(0), c.in(1), c.maybe(2), c.i("group", 1));
  y = biased(c, y, 3);
  c.out(0, activated(c.e, y, c.s("activation", ""), c.floats("activation_params")));
}

/// Input (n, h, w, c) and weight (outputs, kh, kw, c / group).
void nhwc_conv(OpContext& c) {
  c.only({"auto_pad", "dilations", "group", "kernel_shape", "pads", "strides"});
  if (c.in(0).rank() != 4 || c.in(1).rank() != 4) refuse("operands of another rank than 4");
  const Tensor x = c.e.permute(c.in(0), {0, 3, 1, 2});
  const Tensor weight = c.e.permute(c.in(1), {0, 3, 1, 2});
  const Tensor y = convolved(c, x, weight, c.maybe(2), c.i("group", 1));
  c.out(0, c.e.permute(y, {0, 2, 3, 1}));
}

const RegisterOnnx ops{{"com.microsoft::Gelu", gelu},
                       {"com.microsoft::FastGelu", gelu},
                       {"com.microsoft::BiasGelu", gelu},
                       {"com.microsoft::QuickGelu", quick_gelu},
                       {"com.microsoft::BiasAdd", bias_add},
                       {"com.microsoft::BiasSplitGelu", bias_split_gelu},
                       {"com.microsoft::FusedMatMul", fused_matmul},
                       {"com.microsoft::TransposeMatMul", fused_matmul},
                       {"com.microsoft::FusedGemm", fused_gemm},
                       {"com.microsoft::GemmFastGelu", gemm_fast_gelu},
                       {"com.microsoft::FusedConv", fused_conv},
                       {"com.microsoft::NhwcConv", nhwc_conv}};

}  // namespace
}  // namespace tv::onnx
