// Quantised tensors, computed exactly as the pairs of QuantizeLinear and DequantizeLinear define.

#include <algorithm>
#include <cmath>

#include "csrc/frontends/onnx/host_ops.h"

namespace tv::onnx {
namespace {

// Scale or zero point, to be broadcast against x: one, one for each place of an axis, or one for
// each block of it.
Tensor spread(OpContext& c, const Tensor& parameter, const Tensor& x) {
  Emitter& e = c.e;
  if (parameter.rank() == 0) return parameter;
  const int64_t axis = c.axis("axis", 1, x.rank() > 1 ? x.rank() : std::max<int64_t>(x.rank(), 2));
  const int64_t block = c.i("block_size", 0);
  if (block > 0) {
    const auto d = static_cast<size_t>(axis);
    Shape repeated = parameter.shape, shape = parameter.shape;
    repeated.insert(repeated.begin() + axis + 1, Expr(block));
    shape.at(d) = shape.at(d) * Expr(block);
    const Tensor all = e.reshape(e.expand(e.unsqueeze(parameter, axis + 1), repeated), shape);
    return e.slice(all, axis, 0, x.shape.at(d));
  }
  if (parameter.rank() != 1) throw Error(ErrorKind::kUser, "a scale of rank above 1");
  if (parameter.shape[0] == Expr(1)) return e.reshape(parameter, {});
  Shape shape(x.shape.size(), Expr(1));
  shape.at(static_cast<size_t>(axis)) = parameter.shape[0];
  return e.reshape(parameter, shape);
}

std::pair<double, double> range_of(DType dtype) {
  switch (dtype) {
    case DType::kU8:
      return {0, 255};
    case DType::kI8:
      return {-128, 127};
    case DType::kI16:
      return {-32768, 32767};
    default:
      refuse("a zero point of type " + std::string(name(dtype)));
  }
}

Tensor quantized(Emitter& e, const Tensor& x, const Tensor& scale, const Tensor& zero,
                 DType dtype) {
  const auto [low, high] = range_of(dtype);
  const Tensor steps = e.unary("round", e.div(e.cast(x, DType::kF32), e.cast(scale, DType::kF32)));
  const Tensor shifted = zero.present ? e.add(steps, e.cast(zero, DType::kF32)) : steps;
  return e.cast(e.cast(e.clamp(shifted, low, high), DType::kI32), dtype);
}

void quantize(OpContext& c) {
  Emitter& e = c.e;
  const Tensor& x = c.in(0);
  const DType dtype = c.has(2) ? c.in(2).dtype : c.dtype("output_dtype", DType::kU8);
  const Tensor zero = c.has(2) ? spread(c, c.in(2), x) : Tensor{};
  if (c.has_attr("precision") && c.i("precision", 0) != 0 && c.i("precision", 1) != 1) {
    refuse("precision of another type than float");
  }
  c.out(0, quantized(e, x, spread(c, c.in(1), x), zero, dtype));
}

Tensor dequantized(Emitter& e, const Tensor& x, const Tensor& scale, const Tensor& zero) {
  const Tensor wide = e.cast(x, DType::kI32);
  const Tensor shifted = zero.present ? e.sub(wide, e.cast(zero, DType::kI32)) : wide;
  const Tensor y = e.mul(e.cast(shifted, DType::kF32), e.cast(scale, DType::kF32));
  return e.cast(y, scale.dtype);
}

/// A scale or zero point with one element for each block of x; nothing where blocks do not divide.
Tensor of_blocks(OpContext& c, const Tensor& parameter, const Tensor& x) {
  Shape blocks(x.shape.size(), Expr(1));
  const auto axis = static_cast<size_t>(c.axis("axis", 1, std::max<int64_t>(x.rank(), 2)));
  if (c.i("block_size", 0) > 0) {
    blocks = parameter.shape;
    if (!(blocks.at(axis) * Expr(c.i("block_size", 0)) == x.shape.at(axis))) return {};
  } else if (parameter.rank() == 1 && !(parameter.shape[0] == Expr(1))) {
    blocks.at(axis) = parameter.shape[0];
  }
  return c.e.reshape(parameter, blocks);
}

/// 8-bit integers stay as they are for operators that read them so (csrc/graph/quantised.h).
Tensor kept_quantised(OpContext& c, const Tensor& x) {
  const bool small = x.dtype == DType::kI8 || x.dtype == DType::kU8;
  if (!small || x.rank() < 2 || c.in(1).rank() > x.rank()) return {};
  const Tensor scale = of_blocks(c, c.in(1), x);
  const Tensor zero = c.has(2) ? of_blocks(c, c.in(2), x) : Tensor{};
  if (!scale.present || zero.present != c.has(2)) return {};
  return c.e.node("tv::dequantize",
                  {c.e.arg("input", x), c.e.arg("scale", scale), c.e.arg("zero_point", zero),
                   attr_arg("bits", Expr(8))},
                  scale.dtype, x.shape);
}

void dequantize(OpContext& c) {
  const Tensor& x = c.in(0);
  if (const Tensor kept = kept_quantised(c, x); kept.present) return c.out(0, kept);
  const Tensor zero = c.has(2) ? spread(c, c.in(2), x) : Tensor{};
  c.out(0, dequantized(c.e, x, spread(c, c.in(1), x), zero));
}

void dynamic_quantize(OpContext& c) {
  Emitter& e = c.e;
  const Tensor& x = c.in(0);
  const Tensor none = e.number(x.dtype, 0);
  const Tensor low = e.binary("minimum", e.reduce("amin", x, {}, false), none);
  const Tensor high = e.binary("maximum", e.reduce("amax", x, {}, false), none);
  const Tensor scale = e.with("div", e.sub(high, low), 255);
  const Tensor steps = e.unary("round", e.clamp(e.div(e.unary("neg", low), scale), 0, 255));
  const Tensor zero = e.cast(e.cast(steps, DType::kI32), DType::kU8);
  c.out(0, quantized(e, x, scale, zero, DType::kU8));
  c.out(1, scale);
  c.out(2, zero);
}

// Products of integers in int32. Of matrices: sums of float32 products are exact below 2^24 only,
// so each is made of products of one column at a time where it could be larger.
Tensor integer_matmul(Emitter& e, const Tensor& a, const Tensor& b) {
  const auto depth = a.rank() > 0 ? a.shape.back().constant() : std::nullopt;
  if (!depth) refuse("a dynamic inner dimension of a product of integers");
  constexpr int64_t kExact = (1 << 24) / (255 * 255);  // terms whose sum float32 holds
  Tensor sum;
  for (int64_t at = 0; at < *depth; at += kExact) {
    if (*depth > 64 * kExact) refuse("an inner dimension above 16448 of a product of integers");
    const int64_t end = std::min(*depth, at + kExact);
    const int64_t row = b.rank() > 1 ? b.rank() - 2 : 0;
    const Tensor part = e.cast(e.matmul(e.cast(e.slice(a, a.rank() - 1, at, end), DType::kF32),
                                        e.cast(e.slice(b, row, at, end), DType::kF32)),
                               DType::kI32);
    sum = sum.present ? e.add(sum, part) : part;
  }
  if (!sum.present) refuse("an empty inner dimension");
  return sum;
}

Tensor without_zero(Emitter& e, const Tensor& x, const Tensor& zero) {
  const Tensor wide = e.cast(x, DType::kI32);
  return zero.present ? e.sub(wide, e.cast(zero, DType::kI32)) : wide;
}

// A zero point of rows belongs to the rows of a matrix.
Tensor of_rows(Emitter& e, const Tensor& zero, const Tensor& x) {
  if (!zero.present || zero.rank() != 1 || x.rank() < 2) return zero;
  if (zero.shape[0] == Expr(1)) return e.reshape(zero, {});
  return e.unsqueeze(zero, 1);
}

void matmul_integer(OpContext& c) {
  Emitter& e = c.e;
  const Tensor a = without_zero(e, c.in(0), of_rows(e, c.maybe(2), c.in(0)));
  c.out(0, integer_matmul(e, a, without_zero(e, c.in(1), c.maybe(3))));
}

void qlinear_matmul(OpContext& c) {
  Emitter& e = c.e;
  const Tensor a = without_zero(e, c.in(0), of_rows(e, c.in(2), c.in(0)));
  const Tensor b = without_zero(e, c.in(3), c.in(5));
  const Tensor sum = e.cast(integer_matmul(e, a, b), DType::kF32);
  const Tensor scale =
      e.div(e.mul(e.cast(of_rows(e, c.in(1), c.in(0)), DType::kF32), e.cast(c.in(4), DType::kF32)),
            e.cast(c.in(6), DType::kF32));
  const Tensor steps = e.add(e.unary("round", e.mul(sum, scale)), e.cast(c.in(7), DType::kF32));
  const auto [low, high] = range_of(c.in(7).dtype);
  c.out(0, e.cast(e.cast(e.clamp(steps, low, high), DType::kI32), c.in(7).dtype));
}

const RegisterOnnx ops{{"QuantizeLinear", quantize},
                       {"DequantizeLinear", dequantize},
                       {"DynamicQuantizeLinear", dynamic_quantize},
                       {"MatMulInteger", matmul_integer},
                       {"QLinearMatMul", qlinear_matmul}};

}  // namespace
}  // namespace tv::onnx
