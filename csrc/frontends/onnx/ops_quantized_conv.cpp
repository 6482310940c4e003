// Convolutions of integers, computed exactly: sums of float32 products of 8-bit integers are exact
// below 2^24, so channels are taken a part at a time where a sum could be larger.

#include <algorithm>

#include "csrc/frontends/onnx/window.h"

namespace tv::onnx {
namespace {

// Numbers of output channels, against a weight (dimension 0) or a result (dimension 1).
Tensor along_channels(Emitter& e, const Tensor& t, int64_t rank, int64_t dim) {
  if (t.rank() == 0) return t;
  if (t.rank() != 1) throw Error(ErrorKind::kUser, "a scale or zero point of rank above 1");
  Shape shape(static_cast<size_t>(rank), Expr(1));
  shape[static_cast<size_t>(dim)] = t.shape[0];
  return e.reshape(t, shape);
}

Tensor without_zero(Emitter& e, const Tensor& x, const Tensor& zero) {
  const Tensor wide = e.cast(x, DType::kF32);
  return zero.present ? e.sub(wide, e.cast(zero, DType::kF32)) : wide;
}

Tensor one(Emitter& e, const Tensor& t) {
  if (!t.present || t.rank() == 0) return t;
  if (!(e.numel(t) == Expr(1))) throw Error(ErrorKind::kUser, "want one scale and zero point");
  return e.reshape(t, {});
}

// In int32. x and weight are whole numbers of up to 9 bits.
Tensor exact_convolution(OpContext& c, const Tensor& x, const Tensor& weight) {
  Emitter& e = c.e;
  constexpr int64_t kExact = (1 << 24) / (255 * 255);  // terms whose sum float32 holds
  int64_t taps = 1;
  for (size_t d = 2; d < weight.shape.size(); ++d) {
    taps *= weight.shape[d].constant().value_or(kExact + 1);
    if (taps > kExact) refuse("a kernel of more than 258 elements of integers");
  }
  const auto depth = weight.rank() > 1 ? weight.shape[1].constant() : std::nullopt;
  if (!depth) refuse("a dynamic number of channels");
  const int64_t groups = c.i("group", 1),
                step = std::max<int64_t>(1, kExact / std::max<int64_t>(taps, 1));
  if (*depth <= step) return e.cast(convolved(c, x, weight, {}, groups), DType::kI32);
  if (groups != 1) refuse("groups of more integers than a sum holds");
  if (*depth > 256 * step) refuse("more channels of integers than 256 parts hold");
  Tensor sum;
  for (int64_t at = 0; at < *depth; at += step) {
    const int64_t end = std::min(*depth, at + step);
    const Tensor part = e.cast(
        convolved(c, e.slice(x, 1, at, end), e.slice(weight, 1, at, end), {}, 1), DType::kI32);
    sum = sum.present ? e.add(sum, part) : part;
  }
  return sum;
}

Tensor product(OpContext& c, const Tensor& x, const Tensor& x_zero, const Tensor& weight,
               const Tensor& weight_zero) {
  Emitter& e = c.e;
  const Tensor zeros =
      weight_zero.present ? along_channels(e, weight_zero, weight.rank(), 0) : Tensor{};
  return exact_convolution(c, without_zero(e, x, one(e, x_zero)), without_zero(e, weight, zeros));
}

void conv_integer(OpContext& c) { c.out(0, product(c, c.in(0), c.maybe(2), c.in(1), c.maybe(3))); }

// x, its scale and zero point, weight, its, the result's, bias.
void qlinear_conv(OpContext& c) {
  Emitter& e = c.e;
  Tensor sum = product(c, c.in(0), c.in(2), c.in(3), c.in(5));
  const int64_t rank = sum.rank();
  if (c.has(8)) sum = e.add(sum, along_channels(e, c.in(8), rank, 1));
  const auto wide = [&](size_t i) { return e.cast(c.in(i), DType::kF32); };
  const Tensor scale =
      e.div(e.mul(one(e, wide(1)), along_channels(e, wide(4), rank, 1)), one(e, wide(6)));
  const Tensor steps =
      e.add(e.unary("round", e.mul(e.cast(sum, DType::kF32), scale)), one(e, wide(7)));
  const DType dtype = c.in(7).dtype;
  if (dtype != DType::kU8 && dtype != DType::kI8) {
    refuse("a zero point of type " + std::string(name(dtype)));
  }
  const bool is_signed = dtype == DType::kI8;
  const Tensor kept = e.clamp(steps, is_signed ? -128 : 0, is_signed ? 127 : 255);
  c.out(0, e.cast(e.cast(kept, DType::kI32), dtype));
}

const RegisterOnnx ops{{"ConvInteger", conv_integer}, {"QLinearConv", qlinear_conv}};

}  // namespace
}  // namespace tv::onnx
