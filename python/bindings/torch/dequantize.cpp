// torch.ops.torch_vulkan.dequantize and dequantize_floats, the operators that tv.quantize's modules
// call, and decode_floats, which captured graphs have in place of decoding that they spell out.
// They are for eager mode and tracing; engines read the packed tensors themselves.

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <torch/library.h>

namespace {

// The low and the high half of each byte.
at::Tensor halves(const at::Tensor& bytes) {
  return at::stack({bytes.bitwise_and(15), bytes.bitwise_right_shift(4)}, -1).flatten(-2);
}

// (input - zero_point) * scale; scale and zero_point have an element for each group of the last
// dimension. Of 4 bits, the first element of a byte is in its low half, and 8 is 0 without a
// zero_point.
at::Tensor dequantize(const at::Tensor& input, const at::Tensor& scale,
                      const std::optional<at::Tensor>& zero_point, int64_t bits,
                      at::ScalarType dtype) {
  TORCH_CHECK_VALUE(bits == 4 || bits == 8, "dequantize: bits is ", bits, ", want 4 or 8");
  at::Tensor elements = input;
  if (bits == 4) elements = halves(input);
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

constexpr const char* kFloat4 = "float4_e2m1fn";

// The numbers that codes stand for, as float32.
at::Tensor from_codes(const at::Tensor& codes, const std::string& format) {
  TORCH_CHECK_VALUE(codes.scalar_type() == at::kByte, "dequantize_floats: codes of ", format,
                    " are uint8; got ", codes.scalar_type());
  if (format == kFloat4) {
    constexpr float kNumbers[] = {0,     0.5,  1,  1.5,  2,  3,  4,  6,
                                  -0.0F, -0.5, -1, -1.5, -2, -3, -4, -6};
    return at::tensor(at::ArrayRef<float>(kNumbers), codes.options().dtype(at::kFloat))
        .index({halves(codes).to(at::kLong)});
  }
  constexpr std::pair<const char*, at::ScalarType> kTypes[] = {
      {"float8_e4m3fn", at::kFloat8_e4m3fn},
      {"float8_e4m3fnuz", at::kFloat8_e4m3fnuz},
      {"float8_e5m2", at::kFloat8_e5m2},
      {"float8_e5m2fnuz", at::kFloat8_e5m2fnuz},
      {"float8_e8m0fnu", at::kFloat8_e8m0fnu}};
  for (const auto& [name, type] : kTypes) {
    if (format == name) return codes.view(type).to(at::kFloat);
  }
  TORCH_CHECK_VALUE(false, "dequantize_floats: no format '", format, "'");
}

// Numbers of `format`, held as uint8, times the scale of their group of the last dimension: floats,
// or codes of `scale_format`, times `tensor_scale`. Of 4 bits, the first of a byte is in its low
// half.
at::Tensor dequantize_floats(const at::Tensor& input, const at::Tensor& scale,
                             const std::optional<at::Tensor>& tensor_scale, std::string format,
                             std::string scale_format, at::ScalarType dtype) {
  TORCH_CHECK_VALUE(!tensor_scale || !scale_format.empty(),
                    "dequantize_floats: a tensor_scale goes with scales that are codes");
  at::Tensor scales = scale_format.empty() ? scale.to(at::kFloat) : from_codes(scale, scale_format);
  if (tensor_scale) scales = scales * tensor_scale->to(at::kFloat);
  const at::Tensor groups = from_codes(input, format).unflatten(-1, {scale.size(-1), -1});
  return (groups * scales.unsqueeze(-1)).flatten(-2).to(dtype);
}

// The numbers that codes of `format` stand for.
at::Tensor decode_floats(const at::Tensor& input, std::string format, at::ScalarType dtype) {
  return from_codes(input, format).to(dtype);
}

at::Tensor shape_of_numbers(const at::Tensor& input, std::string format, at::ScalarType dtype) {
  c10::SymDimVector sizes(input.sym_sizes().begin(), input.sym_sizes().end());
  if (format == kFloat4) sizes.back() = sizes.back() * 2;
  return at::empty_symint(sizes, input.options().dtype(dtype));
}

at::Tensor shape_of_floats(const at::Tensor& input, const at::Tensor& /*scale*/,
                           const std::optional<at::Tensor>& /*tensor_scale*/, std::string format,
                           std::string /*scale_format*/, at::ScalarType dtype) {
  return shape_of_numbers(input, std::move(format), dtype);
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(torch_vulkan, m) {
  m.def(
      "dequantize(Tensor input, Tensor scale, Tensor? zero_point, int bits, ScalarType dtype) -> "
      "Tensor");
  m.def(
      "dequantize_floats(Tensor input, Tensor scale, Tensor? tensor_scale, str format, str "
      "scale_format, ScalarType dtype) -> Tensor");
  m.def("decode_floats(Tensor input, str format, ScalarType dtype) -> Tensor");
}

TORCH_LIBRARY_IMPL(torch_vulkan, CompositeExplicitAutograd, m) {
  m.impl("dequantize", &dequantize);
  m.impl("dequantize_floats", &dequantize_floats);
  m.impl("decode_floats", &decode_floats);
}

TORCH_LIBRARY_IMPL(torch_vulkan, Meta, m) {
  m.impl("dequantize", &shape_of);
  m.impl("dequantize_floats", &shape_of_floats);
  m.impl("decode_floats", &shape_of_numbers);
}
