// Quantised tensors, computed exactly as the pairs of QuantizeLinear and DequantizeLinear define.

#include <algorithm>
#include <cmath>

#include "csrc/frontends/onnx/kit/host_ops.h"
#include "csrc/frontends/onnx/kit/scales.h"
#include "csrc/frontends/onnx/operators/quantised_values.h"
#include "csrc/graph/quantising.h"

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

std::string text_of(const Shape& shape) {
  std::string text;
  for (const Expr& size : shape) text += (text.empty() ? "" : ", ") + size.str();
  return "[" + text + "]";
}

/// Throws Error(kUser) for a zero point of another shape than the scale's, and for a scale of
/// blocks of another rank than x.
void check_parameters(OpContext& c) {
  const Tensor& x = c.in(0);
  const Tensor& scale = c.in(1);
  const bool one = tv::product(scale.shape) == Expr(1);
  if (c.i("block_size", 0) > 0 && scale.rank() != x.rank()) {
    throw Error(ErrorKind::kUser, "block_size wants a scale of the input's rank: the scale is " +
                                      text_of(scale.shape) + ", the input " + text_of(x.shape));
  }
  if (!c.has(2) || c.in(2).shape == scale.shape) return;
  if (one && tv::product(c.in(2).shape) == Expr(1)) return;
  throw Error(ErrorKind::kUser, "the zero point is " + text_of(c.in(2).shape) + ", the scale " +
                                    text_of(scale.shape) + ": want one shape");
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

Tensor stepped_to(Emitter& e, const Tensor& steps, const Tensor& zero, DType dtype,
                  std::pair<double, double> range) {
  const Tensor whole = e.unary("round", steps);
  const Tensor shifted = zero.present ? e.add(whole, e.cast(zero, DType::kF32)) : whole;
  return e.cast(e.cast(e.clamp(shifted, range.first, range.second), DType::kI32), dtype);
}

}  // namespace

Tensor stepped(Emitter& e, const Tensor& steps, const Tensor& zero, DType dtype) {
  return stepped_to(e, steps, zero, dtype, range_of(dtype));
}

Tensor quantized(Emitter& e, const Tensor& x, const Tensor& scale, const Tensor& zero,
                 DType dtype) {
  return stepped(e, e.div(e.cast(x, DType::kF32), e.cast(scale, DType::kF32)), zero, dtype);
}

namespace {

/// Small floating-point numbers have no zero points but 0.
void check_zero_codes(OpContext& c) {
  const auto zero = c.e.host(c.in(2));
  const auto is_zero = [](const Expr& code) { return code == Expr(0); };
  if (!zero || !std::ranges::all_of(zero->ints, is_zero)) {
    refuse("zero points of small floating-point numbers that are not 0");
  }
}

/// The type that QuantizeLinear makes, where engines hold it in another; 0: elsewhere.
int32_t widened_result(OpContext& c) {
  const int64_t named = c.i("output_dtype", 0);
  return c.has(2) ? c.in(2).widened : widened_type(static_cast<int32_t>(named));
}

/// Of integers that engines hold in a wider type.
std::pair<double, double> range_of_widened(int32_t type) {
  const DType held = dtype_of(type, true);
  if (held == DType::kI64) refuse("a zero point of type " + type_name(type));
  const auto values = static_cast<double>(int64_t{1} << stored_bytes(type, 8));
  return held == DType::kI8 ? std::pair(-values / 2, values / 2 - 1) : std::pair(0.0, values - 1);
}

bool is_one_number(Emitter& e, const Tensor& t) { return e.numel(t) == Expr(1); }

Tensor quantize_node(Emitter& e, const Tensor& x, const Tensor& scale, const Tensor& zero,
                     DType dtype) {
  const Shape one(x.shape.size(), Expr(1));
  const auto [least, most] = range_of(dtype);
  Quantising q{.input = e.id(x),
               .scale = e.id(e.reshape(scale, one)),
               .zero_point = zero.present ? e.id(e.reshape(zero, one)) : kNoValue,
               .least = static_cast<int64_t>(least),
               .most = static_cast<int64_t>(most),
               .divides = true};
  return e.node("tv::quantize", quantising_args(q), dtype, x.shape);
}

void quantize(OpContext& c) {
  Emitter& e = c.e;
  const Tensor& x = c.in(0);
  for (const size_t i : {0, 1}) {
    if (c.in(i).widened)
      refuse("input " + std::to_string(i) + " is of type " + type_name(c.in(i).widened));
  }
  check_parameters(c);
  const int32_t type = widened_result(c);
  if (!small_float(type).empty()) {
    if (c.has(2)) check_zero_codes(c);
    const Tensor scale = e.cast(spread(c, step_in(c, 1), x), DType::kF32);
    const Tensor steps = e.div(e.cast(x, DType::kF32), scale);
    return c.out(0, encoded(e, steps, type, c.i("saturate", 1) != 0));
  }
  const DType dtype = type       ? dtype_of(type, true)
                      : c.has(2) ? c.in(2).dtype
                                 : c.dtype("output_dtype", DType::kU8);
  const Tensor zero = c.has(2) ? spread(c, c.in(2), x) : Tensor{};
  if (c.has_attr("precision") && c.i("precision", 0) != 0 && c.i("precision", 1) != 1) {
    refuse("precision of another type than float");
  }
  const Tensor scale = spread(c, step_in(c, 1), x);
  if (!type && is_one_number(e, scale) && (dtype == DType::kI8 || dtype == DType::kU8)) {
    return c.out(0, quantize_node(e, x, scale, zero, dtype));
  }
  if (!type) return c.out(0, quantized(e, x, scale, zero, dtype));
  const Tensor steps = e.div(e.cast(x, DType::kF32), e.cast(scale, DType::kF32));
  Tensor made = stepped_to(e, steps, zero, dtype, range_of_widened(type));
  made.widened = type;
  c.out(0, made);
}

}  // namespace

Tensor dequantized(Emitter& e, const Tensor& x, const Tensor& scale, const Tensor& zero) {
  const Tensor wide = e.cast(x, DType::kI32);
  const Tensor shifted = zero.present ? e.sub(wide, e.cast(zero, DType::kI32)) : wide;
  const Tensor y = e.mul(e.cast(shifted, DType::kF32), e.cast(scale, DType::kF32));
  return e.cast(y, scale.dtype);
}

Tensor unsigned_zero(Emitter& e, const Tensor& zero, const Tensor& scale, bool is_signed) {
  if (!is_signed) return zero.present ? zero : e.full(scale.shape, DType::kU8, 0);
  if (!zero.present) return {};
  return e.cast(e.with("add", e.cast(zero, DType::kI32), 8), DType::kU8);
}

namespace {

/// A scale or zero point with one element for each block of x; nothing where they do not fit.
Tensor of_blocks(OpContext& c, const Tensor& parameter, const Tensor& x) {
  Shape blocks(x.shape.size(), Expr(1));
  const auto axis = static_cast<size_t>(c.axis("axis", 1, std::max<int64_t>(x.rank(), 2)));
  if (c.i("block_size", 0) > 0) {
    blocks = parameter.shape;
    if (!(blocks.at(axis) * Expr(c.i("block_size", 0)) == x.shape.at(axis))) return {};
  } else if (parameter.rank() == 1 && !(parameter.shape[0] == Expr(1))) {
    if (!(parameter.shape[0] == x.shape.at(axis))) return {};
    blocks.at(axis) = parameter.shape[0];
  }
  return c.e.reshape(parameter, blocks);
}

/// The scale as floats; codes become floats in the last step, so that they can be read as such.
Tensor scale_of_blocks(OpContext& c, const Tensor& x) {
  Tensor blocks = of_blocks(c, c.in(1), x);
  if (!blocks.present) return blocks;
  blocks.widened = c.in(1).widened;
  return decoded(c.e, blocks);
}

/// The type of the result, where scales are codes, too.
DType dequantized_type(OpContext& c) {
  const DType otherwise = small_float(c.in(1).widened).empty() ? c.in(1).dtype : DType::kF32;
  return c.i("output_dtype", 0) == 0 ? otherwise : c.dtype("output_dtype", otherwise);
}

/// tv::dequantize of elements of `bits` as they are held; `format`: of codes.
Tensor dequantize_node(OpContext& c, const Tensor& elements, const Tensor& scale,
                       const Tensor& zero, int64_t bits, const std::string& format,
                       const Shape& shape) {
  std::vector<Arg> args = {c.e.arg("input", elements), c.e.arg("scale", scale),
                           c.e.arg("zero_point", zero), attr_arg("bits", Expr(bits))};
  if (!format.empty()) args.push_back(attr_arg("format", format));
  return c.e.node("tv::dequantize", std::move(args), dequantized_type(c), shape);
}

/// A matrix of 4-bit elements of the file stays so: with neighbours along what is summed, which is
/// the dimension that blocks divide, or the one that has no scales of its own.
Tensor kept_in_four_bits(OpContext& c, const Tensor& x) {
  if (!x.stored || x.rank() != 2 || c.in(1).rank() > 2) return {};
  const std::string format = small_float(x.stored->type);
  if (!four_bits(*x.stored).yes && format != "float4_e2m1fn") return {};
  Emitter& e = c.e;
  const bool blocks = c.i("block_size", 0) > 0;
  const bool transposed = (c.axis("axis", 1, 2) == 0) == blocks;
  if (x.stored->dims.at(transposed ? 0 : 1) % 2) return {};
  Tensor scale = scale_of_blocks(c, x);
  Tensor zero = c.has(2) ? of_blocks(c, c.in(2), x) : Tensor{};
  if (!scale.present || zero.present != c.has(2)) return {};
  zero = format.empty() ? unsigned_zero(e, zero, scale, four_bits(*x.stored).is_signed) : Tensor{};
  Shape shape = x.shape;
  if (transposed) {
    std::swap(shape[0], shape[1]);
    scale = e.transpose(scale, 0, 1);
    if (zero.present) zero = e.transpose(zero, 0, 1);
  }
  const Tensor made = dequantize_node(c, e.stored(packed_pairs(x.stored, transposed)), scale, zero,
                                      4, format, shape);
  return transposed ? e.transpose(made, 0, 1) : made;
}

/// 8-bit integers stay as they are for operators that read them so (csrc/graph/quantised.h).
Tensor kept_quantised(OpContext& c, const Tensor& x) {
  const bool small = x.dtype == DType::kI8 || x.dtype == DType::kU8;
  if (!small || x.rank() < 2 || c.in(1).rank() > x.rank()) return {};
  const std::string format = small_float(x.widened);
  const Tensor scale = scale_of_blocks(c, x);
  const Tensor zero = c.has(2) && format.empty() ? of_blocks(c, c.in(2), x) : Tensor{};
  if (!scale.present || (format.empty() && zero.present != c.has(2))) return {};
  return dequantize_node(c, x, scale, zero, 8, format, x.shape);
}

void dequantize(OpContext& c) {
  const Tensor& x = c.in(0);
  const Tensor& scale = scale_in(c, 1);
  if (is_uint64(x.widened)) refuse("input 0 is of type uint64");
  check_parameters(c);
  if (c.has(2) && !small_float(c.in(0).widened).empty()) check_zero_codes(c);
  if (const Tensor kept = kept_in_four_bits(c, x); kept.present) return c.out(0, kept);
  if (const Tensor kept = kept_quantised(c, x); kept.present) return c.out(0, kept);
  Tensor steps = spread(c, scale, x);
  steps.widened = scale.widened;
  steps = decoded(c.e, steps);
  if (!small_float(x.widened).empty()) {
    const Tensor y = c.e.mul(decoded(c.e, x), c.e.cast(steps, DType::kF32));
    return c.out(0, c.e.cast(y, dequantized_type(c)));
  }
  const Tensor zero = c.has(2) ? spread(c, c.in(2), x) : Tensor{};
  c.out(0, c.e.cast(dequantized(c.e, x, steps, zero), dequantized_type(c)));
}

}  // namespace

QuantisedValue dynamically_quantized(Emitter& e, const Tensor& x) {
  const Tensor none = e.number(x.dtype, 0);
  const Tensor low = e.binary("minimum", e.reduce("amin", x, {}, false), none);
  const Tensor high = e.binary("maximum", e.reduce("amax", x, {}, false), none);
  const Tensor one = e.number(x.dtype, 1), last = e.number(x.dtype, 255);
  // As ONNX Runtime has it: zeros alone have the scale 1, and where the quotient is no number, as
  // of a scale that is 0 (denormal values) or infinite, the zero point is 255.
  const Tensor range = e.sub(high, low);
  const Tensor scale = e.where(e.with("eq", range, 0), one, e.with("div", range, 255));
  const Tensor place = e.div(e.unary("neg", low), scale);
  const Tensor within = e.where(e.compare("lt", place, last), place, last);
  const Tensor zero = e.cast(e.cast(e.unary("round", within), DType::kI32), DType::kU8);
  return {quantized(e, x, scale, zero, DType::kU8), scale, zero};
}

namespace {

void dynamic_quantize(OpContext& c) {
  const QuantisedValue q = dynamically_quantized(c.e, c.in(0));
  c.out(0, q.x);
  c.out(1, q.scale);
  c.out(2, q.zero);
}

/// Zero points as tv::matmul_integer takes them: of one, or of one a row of a matrix.
Tensor of_rows(Emitter& e, const Tensor& zero, const Expr& rows) {
  if (!zero.present) return zero;
  if (!(e.numel(zero) == Expr(1)) && !(e.numel(zero) == rows)) {
    refuse("zero points that are neither one nor one for each row");
  }
  return e.reshape(zero, {e.numel(zero), Expr(1)});
}

Shape batch_of(const Tensor& x) {
  if (x.rank() < 2) throw Error(ErrorKind::kUser, "got a scalar, want a matrix or a vector");
  return {x.shape.begin(), x.shape.end() - 2};
}

/// The batch of both, as torch broadcasts them.
Shape common_batch(const Tensor& a, const Tensor& b) {
  Shape out = batch_of(a), other = batch_of(b);
  if (other.size() > out.size()) std::swap(out, other);
  const size_t skip = out.size() - other.size();
  for (size_t d = 0; d < other.size(); ++d) {
    if (out[skip + d] == Expr(1)) out[skip + d] = other[d];
  }
  return out;
}

/// Matrices of a batch, one after the other.
Tensor in_one_batch(Emitter& e, const Tensor& x, const Shape& batch) {
  Shape shape = batch;
  shape.insert(shape.end(), x.shape.end() - 2, x.shape.end());
  return e.reshape(e.expand(x, shape), {tv::product(batch), shape[shape.size() - 2], shape.back()});
}

/// (a - a_zero)(b - b_zero) in int32; both of rank 2 or more.
Tensor product_of_matrices(Emitter& e, Tensor a, const Tensor& a_zero, Tensor b,
                           const Tensor& b_zero) {
  Shape shape = common_batch(a, b);
  const Shape batch = shape;
  shape.insert(shape.end(), {a.shape[a.shape.size() - 2], b.shape.back()});
  const bool batched = b.rank() > 2;
  Shape out = {shape[shape.size() - 2], shape.back()};
  if (batched) {
    a = in_one_batch(e, a, batch);
    b = in_one_batch(e, b, batch);
    out.insert(out.begin(), tv::product(batch));
  } else {
    const Expr rows = tv::product(batch) * out[0];
    a = e.reshape(a, {rows, a.shape.back()});
    out[0] = rows;
  }
  b = e.transpose(b, b.rank() - 2, b.rank() - 1);
  const Expr a_rows = a.shape[a.shape.size() - 2], b_rows = b.shape[b.shape.size() - 2];
  const Tensor y =
      e.node("tv::matmul_integer",
             {e.arg("a", a), e.arg("b", b), e.arg("a_zero", of_rows(e, a_zero, a_rows)),
              e.arg("b_zero", of_rows(e, b_zero, b_rows))},
             DType::kI32, out);
  return e.reshape(y, shape);
}

}  // namespace

Tensor integer_matmul(Emitter& e, const Tensor& a, const Tensor& a_zero, const Tensor& b,
                      const Tensor& b_zero) {
  Tensor y = product_of_matrices(e, a.rank() == 1 ? e.unsqueeze(a, 0) : a, a_zero,
                                 b.rank() == 1 ? e.unsqueeze(b, 1) : b, b_zero);
  if (b.rank() == 1) y = e.squeeze(y, y.rank() - 1);
  return a.rank() == 1 ? e.squeeze(y, b.rank() == 1 ? y.rank() - 1 : y.rank() - 2) : y;
}

namespace {

void matmul_integer(OpContext& c) {
  c.out(0, integer_matmul(c.e, c.in(0), c.maybe(2), c.in(1), c.maybe(3)));
}

/// A scale against the rows of x, where it has one for each.
Tensor along_rows(Emitter& e, const Tensor& scale, const Tensor& x) {
  if (scale.rank() != 1 || x.rank() < 2) return scale;
  return e.numel(scale) == Expr(1) ? e.reshape(scale, {}) : e.unsqueeze(scale, 1);
}

void qlinear_matmul(OpContext& c) {
  Emitter& e = c.e;
  const Tensor sum = e.cast(integer_matmul(e, c.in(0), c.in(2), c.in(3), c.in(5)), DType::kF32);
  const Tensor scale = e.div(e.mul(e.cast(along_rows(e, scale_in(c, 1), c.in(0)), DType::kF32),
                                   e.cast(scale_in(c, 4), DType::kF32)),
                             e.cast(step_in(c, 6), DType::kF32));
  c.out(0, stepped(e, e.mul(sum, scale), c.in(7), c.in(7).dtype));
}

const RegisterOnnx ops{{"QuantizeLinear", quantize, Widened::kSaid},
                       {"com.microsoft::QuantizeLinear", quantize},
                       {"com.microsoft::DequantizeLinear", dequantize, Widened::kRead},
                       {"DequantizeLinear", dequantize, Widened::kRead},
                       {"DynamicQuantizeLinear", dynamic_quantize},
                       {"MatMulInteger", matmul_integer},
                       {"QLinearMatMul", qlinear_matmul}};

}  // namespace
}  // namespace tv::onnx
