// torch.ops.torch_vulkan.dequantize, the operator that tv.quantize's modules call. It is for eager
// mode and tracing; engines read the packed tensors themselves.

#include <ATen/TensorOperators.h>
#include <torch/library.h>

namespace {

// (input - zero_point) * scale; scale and zero_point have an element for each group of the last
// dimension. Of 4 bits, the first element of a byte is in its low half, and 8 is 0 without a
// zero_point.
at::Tensor dequantize(const at::Tensor& input, const at::Tensor& scale,
                      const std::optional<at::Tensor>& zero_point, int64_t bits,
                      at::ScalarType dtype) {
  TORCH_CHECK_VALUE(bits == 4 || bits == 8, "dequantize: bits is ", bits, ", want 4 or 8");
  at::Tensor elements = input;
  if (bits == 4) {
    elements = at::stack({input.bitwise_and(15), input.bitwise_right_shift(4)}, -1).flatten(-2);
  }
  at::Tensor groups = elements.to(at::kFloat).unflatten(-1, {scale.size(-1), -1});
  if (zero_point) {
    groups = groups - zero_point->to(at::kFloat).unsqueeze(-1);
  } else if (bits == 4) {
    groups = groups - 8;
  }
  return (groups * scale.to(at::kFloat).unsqueeze(-1)).flatten(-2).to(dtype);
}

at::Tensor shape_of(const at::Tensor& input, const at::Tensor& /*scale*/,
                    const std::optional<at::Tensor>& /*zero_point*/, int64_t bits,
                    at::ScalarType dtype) {
  c10::SymDimVector sizes(input.sym_sizes().begin(), input.sym_sizes().end());
  sizes.back() = sizes.back() * 8 / bits;
  return at::empty_symint(sizes, input.options().dtype(dtype));
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(torch_vulkan, m) {
  m.def(
      "dequantize(Tensor input, Tensor scale, Tensor? zero_point, int bits, ScalarType dtype) -> "
      "Tensor");
}

TORCH_LIBRARY_IMPL(torch_vulkan, CompositeExplicitAutograd, m) {
  m.impl("dequantize", &dequantize);
}

TORCH_LIBRARY_IMPL(torch_vulkan, Meta, m) { m.impl("dequantize", &shape_of); }
