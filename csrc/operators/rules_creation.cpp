// Operators that make tensors of numbers, and those that keep their operand's shape.

#include "csrc/operators/rules.h"

namespace tv {
namespace {

void of_size(NodeTypes& t) { t.gives(t.node().exprs("size")); }

void eye(NodeTypes& t) {
  const Expr n = t.node().expr("n");
  t.gives({n, t.expr("m", n)});
}

void nonzero(NodeTypes& t) { t.gives({t.node().expr("size"), t.rank("self")}); }

/// Scales and zero points by channel.
void of_channels(NodeTypes& t) {
  const Shape shape = t.shape("input");
  t.want(!shape.empty(), "a scalar has no channels");
  const int64_t axis = t.wrap(t.integer("axis", 0), static_cast<int64_t>(shape.size()));
  for (const char* arg : {"scales", "zero_points"}) {
    if (t.has(arg)) t.equal(t.shape(arg), {shape[static_cast<size_t>(axis)]}, arg);
  }
}

void equal_counts(NodeTypes& t) {
  const size_t shifts = t.node().exprs("shifts").size(), dims = t.node().exprs("dims").size();
  t.want(shifts == dims || (dims == 0 && shifts == 1), "wants as many shifts as dims");
}

}  // namespace

void add_creation_rules(TypeRules& rules) {
  const TypeRule same = pattern("self [*s] -> [*s]");
  rules.add(
      "full zeros ones empty.memory_format empty_permuted empty_strided new_empty "
      "new_empty_strided new_full new_ones new_zeros",
      of_size);
  rules.add("empty_like full_like ones_like zeros_like _to_copy", same);
  rules.add("scalar_tensor complex::scalar", "-> []");
  rules.add("arange arange.start arange.start_step prims::iota", "-> [.]");
  rules.add("eye eye.m", eye);
  rules.add(
      "linspace linspace.Scalar_Tensor linspace.Tensor_Scalar linspace.Tensor_Tensor logspace "
      "logspace.Scalar_Tensor logspace.Tensor_Scalar logspace.Tensor_Tensor",
      [](NodeTypes& t) {
        // Numbers are no tensors, so what is one is a scalar.
        for (const char* arg : {"start", "end"}) {
          if (t.node().arg(arg).is_tensor) t.equal(t.shape(arg), {}, arg);
        }
        t.gives({t.node().expr("steps")});
      });
  rules.add("nonzero_static", nonzero);
  rules.add("fill.Tensor", "self [*s], value [*v] -> [*s]");  // converters refuse dimensions
  rules.add("copy", "self [*s], src ~[*s] -> [*s]");
  rules.add("flip tril triu resolve_conj resolve_neg _conj _conj_physical", same);
  rules.add("roll", same & equal_counts);
  rules.add("conj_physical", same);
  rules.add("complex polar", [](NodeTypes& t) {
    const bool polar = t.node().find("abs") != nullptr;
    t.gives(
        t.broadcast(t.shape(polar ? "abs" : "real"), t.shape(polar ? "angle" : "imag"), "a size"));
  });
  rules.add("frexp.Tensor", "self [*s] -> [*s], [*s]");
  rules.add("log_sigmoid_forward", "self [*s] -> [*s], [*]");
  rules.add("_prelu_kernel_backward", "self [*s], grad_output [*s], weight ~[*s] -> [*s], [*s]");
  rules.add("prelu",
            "self [n c *s], weight [c] -> [n c *s] | self [*s], weight [1] -> [*s] | "
            "self [*s], weight [] -> [*s]");
  rules.add("fake_quantize_per_tensor_affine_cachemask", "self [*s] -> [*s], [*s]");
  rules.add("_fake_quantize_per_tensor_affine_cachemask_tensor_qparams",
            "self [*s], scale [*{0,1}], zero_point [*{0,1}], fake_quant_enabled [*{0,1}] -> "
            "[*s], [*s]");
  const TypeRule quantised = pattern("input [*s] -> [*s]");
  rules.add(
      "quantized_decomposed::dequantize_per_tensor quantized_decomposed::quantize_per_tensor "
      "quantized_decomposed::dequantize_per_channel_group "
      "quantized_decomposed::quantize_per_channel_group "
      "quantized_decomposed::dequantize_per_token quantized_decomposed::quantize_per_token "
      "torchao::dequantize_affine torchao::quantize_affine",
      quantised);
  rules.add(
      "quantized_decomposed::dequantize_per_channel quantized_decomposed::quantize_per_channel",
      quantised & of_channels);
  rules.add(
      "quantized_decomposed::dequantize_per_tensor.tensor "
      "quantized_decomposed::dequantize_per_tensor.tensor2 "
      "quantized_decomposed::quantize_per_tensor.tensor",
      "input [*s], scale [*{0,1}], zero_point [*{0,1}] -> [*s]");
  rules.add("tv::to_small_float", "self [*s] -> [*s]");
  // The converters look at what two elements a byte and scales of blocks make of sizes.
  rules.add(
      "tv::dequantize torch_vulkan::dequantize torch_vulkan::dequantize_floats "
      "torch_vulkan::decode_floats",
      "input [*s .] -> [*s .] | input [] -> []");
  rules.add("real imag view_as_complex", [](NodeTypes& t) {
    // Of complex values without their pairs; view_as_complex takes the pairs of a real tensor.
    Shape shape = t.shape("self");
    if (t.node().op.ends_with("view_as_complex")) {
      t.want(!shape.empty() && shape.back() == Expr(2), "wants pairs");
      shape.pop_back();
    }
    t.gives(shape);
  });
  rules.add("view_as_real view_as_real_copy", "self [*s] -> [*s 2]");
  rules.add("_fft_r2c _fft_c2r _fft_c2c", [](NodeTypes& t) {
    const int64_t rank = t.rank("self");
    for (const Expr& dim : t.node().exprs("dim")) t.wrap(dim.constant().value_or(0), rank);
    if (t.has_result(0)) {
      t.want(static_cast<int64_t>(t.result().size()) == rank, "the result has another rank");
    }
  });
}

}  // namespace tv
