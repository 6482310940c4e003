// Activations and the gradients that AOTAutograd leaves whole.

#include "converters/kit/pointwise_rules.h"
#include "csrc/rewriter.h"

namespace tv {
namespace {

using Args = std::vector<std::string>;

PointwiseRule rule(const char* op, const char* function, Args args = {"self"}) {
  return {.op = op, .function = function, .args = std::move(args), .compute = Compute::kOutput};
}

/// gelu and gelu_backward: the erf form or the tanh form.
std::function<std::string(const NodeContext&, PointwiseInstr&)> approximate(std::string suffix) {
  return [suffix = std::move(suffix)](const NodeContext& c, PointwiseInstr&) {
    const bool tanh = c.node.has("approximate") && c.node.text("approximate") == "tanh";
    return (tanh ? "gelu_tanh" : "gelu") + suffix;
  };
}

std::string selu_constants(const NodeContext&, PointwiseInstr& instr) {
  instr.scalars = {1.6732632423543772848170429916717, 1.0507009873554804934193349852946, 1.0};
  return "elu";
}

std::string relu6_bounds(const NodeContext&, PointwiseInstr& instr) {
  if (is_float(instr.compute)) {
    instr.scalars = {0, 6};
  } else {
    instr.integers = {0, 6};
  }
  return "clamp";
}

std::string elu_backward(const NodeContext& c, PointwiseInstr&) {
  return c.node.flag("is_result") ? "elu_backward_result" : "elu_backward";
}

std::string logit(const NodeContext& c, PointwiseInstr&) {
  return c.node.has("eps") ? "logit_eps" : "logit";
}

const RegisterPointwise activations({
    rule("aten::relu", "relu"),
    {.op = "aten::relu6", .compute = Compute::kOutput, .choose = relu6_bounds},
    rule("aten::hardtanh", "clamp", {"self", "min_val", "max_val"}),
    rule("aten::hardswish", "hardswish"),
    rule("aten::hardsigmoid", "hardsigmoid"),
    rule("aten::silu", "silu"),
    rule("aten::mish", "mish"),
    {.op = "aten::gelu", .compute = Compute::kOutput, .choose = approximate("")},
    rule("aten::elu", "elu", {"self", "alpha", "scale", "input_scale"}),
    rule("aten::celu", "celu", {"self", "alpha"}),
    {.op = "aten::selu", .compute = Compute::kOutput, .choose = selu_constants},
    rule("aten::leaky_relu", "leaky_relu", {"self", "negative_slope"}),
    rule("aten::softplus", "softplus", {"self", "beta", "threshold"}),
    rule("aten::threshold", "threshold", {"self", "threshold", "value"}),
    rule("aten::softshrink", "softshrink", {"self", "lambd"}),
    rule("aten::hardshrink", "hardshrink", {"self", "lambd"}),
    rule("aten::_prelu_kernel", "prelu", {"self", "weight"}),
    {.op = "aten::logit", .args = {"self", "eps"}, .compute = Compute::kFloat, .choose = logit},
});

const RegisterPointwise gradients({
    rule("aten::threshold_backward", "threshold_backward", {"grad_output", "self", "threshold"}),
    rule("aten::sigmoid_backward", "sigmoid_backward", {"grad_output", "output"}),
    rule("aten::tanh_backward", "tanh_backward", {"grad_output", "output"}),
    rule("aten::silu_backward", "silu_backward", {"grad_output", "self"}),
    rule("aten::mish_backward", "mish_backward", {"grad_output", "self"}),
    {.op = "aten::gelu_backward",
     .args = {"grad_output", "self"},
     .compute = Compute::kOutput,
     .choose = approximate("_backward")},
    rule("aten::hardswish_backward", "hardswish_backward", {"grad_output", "self"}),
    rule("aten::hardsigmoid_backward", "hardsigmoid_backward", {"grad_output", "self"}),
    rule("aten::hardtanh_backward", "hardtanh_backward",
         {"grad_output", "self", "min_val", "max_val"}),
    rule("aten::leaky_relu_backward", "leaky_relu_backward",
         {"grad_output", "self", "negative_slope"}),
    {.op = "aten::elu_backward",
     .args = {"grad_output", "self_or_result", "alpha", "scale", "input_scale"},
     .compute = Compute::kOutput,
     .choose = elu_backward},
    rule("aten::softplus_backward", "softplus_backward",
         {"grad_output", "self", "beta", "threshold"}),
    rule("aten::log_sigmoid_backward", "log_sigmoid_backward", {"grad_output", "self"}),
    rule("aten::softshrink_backward", "softshrink_backward", {"grad_output", "self", "lambd"}),
    rule("aten::hardshrink_backward", "softshrink_backward", {"grad_out", "self", "lambd"}),
    rule("aten::native_dropout_backward", "mask_scale", {"grad_output", "mask", "scale"}),
});

/// Both outputs of an operator, each by its row.
void expand_pair(const NodeContext& c, Rewriter& r, const char* first, std::vector<ValueId> a,
                 const char* second, std::vector<ValueId> b) {
  const auto output = [&](size_t k, const char* function, std::vector<ValueId> operands) {
    if (c.node.outputs.size() <= k || c.node.outputs[k] == kNoValue) return;
    r.replace(k, r.pointwise(function, std::move(operands), c.output(k).dtype));
  };
  output(0, first, std::move(a));
  output(1, second, std::move(b));
}

void expand_log_sigmoid(const NodeContext& c, Rewriter& r) {
  const ValueId self = c.node.input("self");
  expand_pair(c, r, "log_sigmoid", {self}, "log_sigmoid_buffer", {self});
}

void expand_prelu_backward(const NodeContext& c, Rewriter& r) {
  const ValueId grad = c.node.input("grad_output"), self = c.node.input("self");
  expand_pair(c, r, "prelu_backward", {grad, self, c.node.input("weight")}, "prelu_backward_weight",
              {grad, self});
}

/// The weight's one dimension is the channels'.
void expand_prelu(const NodeContext& c, Rewriter& r) {
  const ValueId self = c.node.input("self");
  ValueId weight = c.node.input("weight");
  const Shape& shape = c.shape("self");
  if (c.rank("weight") == 1 && shape.size() > 1) {
    Shape wide(shape.size(), Expr(1));
    wide[1] = c.shape("weight")[0];
    weight = r.reshape(weight, wide);
  }
  r.replace(0, r.pointwise("prelu", {self, weight}, c.output().dtype));
}

const RegisterConverter expanded({
    {.op = "aten::log_sigmoid_forward",
     .expand = expand_log_sigmoid,
     .types = "self [*s] -> [*s], [*]"},
    {.op = "aten::_prelu_kernel_backward",
     .expand = expand_prelu_backward,
     .types = "self [*s], grad_output [*s], weight ~[*s] -> [*s], [*s]"},
    {.op = "aten::prelu",
     .expand = expand_prelu,
     .types = "self [n c *s], weight [c] -> [n c *s] | self [*s], weight [1] -> [*s] | "
              "self [*s], weight [] -> [*s]"},
});

}  // namespace
}  // namespace tv
