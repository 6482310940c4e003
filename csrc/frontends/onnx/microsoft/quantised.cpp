// com.microsoft's operators on 8-bit integers (ONNX Runtime, docs/ContribOperators.md), computed
// from what their operands stand for and quantised again, rounded to even.

#include "csrc/frontends/onnx/kit/scales.h"
#include "csrc/frontends/onnx/kit/window.h"
#include "csrc/frontends/onnx/operators/quantised_values.h"

namespace tv::onnx {

Tensor scaled_product(Emitter& e, const QuantisedValue& a, const QuantisedValue& b,
                      const Tensor& bias) {
  if (!(e.numel(a.scale) == Expr(1))) refuse("a scale for each row of the first operand");
  if (b.scale.rank() > 1) refuse("a scale of rank above 1");
  const DType wide = DType::kF32;
  const Tensor sum = e.cast(integer_matmul(e, a.x, a.zero, b.x, b.zero), wide);
  const Tensor scale = e.mul(e.cast(e.reshape(a.scale, {}), wide), e.cast(b.scale, wide));
  Tensor y = e.mul(sum, scale);
  if (bias.present) y = e.add(y, e.cast(bias, wide));
  return e.cast(y, b.scale.dtype);
}

namespace {

Tensor one(Emitter& e, const Tensor& t) {
  if (!t.present || t.rank() == 0) return t;
  if (!(e.numel(t) == Expr(1))) refuse("more than one scale or zero point");
  return e.reshape(t, {});
}

/// Inputs i, i + 1 and i + 2 as floats: a tensor, its scale, its zero point.
Tensor value_in(OpContext& c, size_t i) {
  return dequantized(c.e, c.in(i), one(c.e, scale_in(c, i + 1)), one(c.e, c.maybe(i + 2)));
}

/// The result in `dtype`, with the scale of input i and the zero point of the next.
void quantise_out(OpContext& c, const Tensor& y, size_t i, DType dtype) {
  c.out(0, quantized(c.e, y, one(c.e, step_in(c, i)), one(c.e, c.maybe(i + 1)), dtype));
}

void binary(OpContext& c) {
  c.only({});
  const char* function = c.type() == "QLinearAdd" ? "add" : "mul";
  const Tensor y = c.e.binary(function, value_in(c, 0), value_in(c, 3));
  quantise_out(c, y, 6, c.in(0).dtype);
}

void sigmoid(OpContext& c) {
  c.only({});
  quantise_out(c, c.e.unary("sigmoid", value_in(c, 0)), 3, c.in(0).dtype);
}

void leaky_relu(OpContext& c) {
  c.only({"alpha"});
  const Tensor x = value_in(c, 0);
  const Tensor y = c.e.node("aten::leaky_relu",
                            {c.e.arg("self", x), attr_arg("negative_slope", c.f("alpha", 0.01f))},
                            x.dtype, x.shape);
  quantise_out(c, y, 3, c.in(0).dtype);
}

void softmax(OpContext& c) {
  Emitter& e = c.e;
  c.only({"axis", "opset"});
  const Tensor x = value_in(c, 0);
  const bool flat = c.i("opset", 13) < 13;            // the dimensions from `axis` on are one
  const int64_t axis = c.axis("axis", -1, x.rank());  // of every opset
  Tensor y;
  if (flat) {
    const std::span<const Expr> dims(x.shape);
    const auto at = static_cast<size_t>(axis);
    const Tensor rows = e.reshape(x, {product(dims.first(at)), product(dims.subspan(at))});
    y = e.reshape(e.softmax(rows, 1), x.shape);
  } else {
    y = e.softmax(x, axis);
  }
  quantise_out(c, y, 3, c.in(0).dtype);
}

/// The scale and zero point of the result, then each operand's three.
void concat(OpContext& c) {
  c.only({"axis"});
  if (c.count() < 5 || (c.count() - 2) % 3)
    throw Error(ErrorKind::kUser, "want three of each input");
  std::vector<Tensor> parts;
  for (size_t i = 2; i < c.count(); i += 3) {
    parts.push_back(is_float(c.in(i).dtype) ? c.in(i) : value_in(c, i));
  }
  quantise_out(c, c.e.cat(parts, c.axis("axis", 0, parts[0].rank())), 0, c.in(1).dtype);
}

void where(OpContext& c) {
  c.only({});
  quantise_out(c, c.e.where(c.in(0), value_in(c, 1), value_in(c, 4)), 7, c.in(1).dtype);
}

void reduce_mean(OpContext& c) {
  c.only({"axes", "keepdims"});
  const Tensor y = c.e.reduce("mean", value_in(c, 0), c.ints("axes"), c.i("keepdims", 1) != 0);
  quantise_out(c, y, 3, c.in(0).dtype);
}

void average_pool(OpContext& c) {
  c.only({"kernel_shape", "strides", "pads", "auto_pad", "ceil_mode", "count_include_pad",
          "channels_last"});
  c.want_attr("channels_last", 0);
  quantise_out(c, averaged(c, value_in(c, 0)), 3, c.in(0).dtype);
}

/// Over all but the first dimension and the channels', which is the last or the second.
void global_average_pool(OpContext& c) {
  c.only({"channels_last"});
  const Tensor x = value_in(c, 0);
  if (x.rank() < 3) throw Error(ErrorKind::kUser, "want an input of rank 3 or more");
  const int64_t first = c.i("channels_last", 0) != 0 ? 1 : 2;
  std::vector<int64_t> dims;
  for (int64_t d = first; d < first + x.rank() - 2; ++d) dims.push_back(d);
  quantise_out(c, c.e.reduce("mean", x, dims, true), 3, c.in(0).dtype);
}

void matmul_integer_to_float(OpContext& c) {
  c.only({});
  c.out(0, scaled_product(c.e, {c.in(0), scale_in(c, 2), c.maybe(4)},
                          {c.in(1), scale_in(c, 3), c.maybe(5)}, c.maybe(6)));
}

void dynamic_quantize_matmul(OpContext& c) {
  c.only({});
  const QuantisedValue a = dynamically_quantized(c.e, c.in(0));
  c.out(0, scaled_product(c.e, a, {c.in(1), scale_in(c, 2), c.maybe(3)}, c.maybe(4)));
}

/// alpha A B + C: C is int32 of the product's scale. Floats, if no scale of the result is given.
void gemm(OpContext& c) {
  Emitter& e = c.e;
  c.only({"alpha", "transA", "transB"});
  const auto turned = [&](size_t i, const char* name) {
    return c.i(name, 0) != 0 ? e.transpose(c.in(i), 0, 1) : c.in(i);
  };
  Tensor sum =
      integer_matmul(e, turned(0, "transA"), one(e, c.in(2)), turned(3, "transB"), c.in(5));
  if (c.has(6)) sum = e.add(sum, c.in(6));
  const Tensor scale = e.mul(one(e, scale_in(c, 1)), scale_in(c, 4));
  const Tensor y = e.mul(e.cast(sum, DType::kF32), e.with("mul", scale, c.f("alpha", 1)));
  if (!c.has(7)) return c.out(0, y);
  quantise_out(c, y, 7, c.in(8).dtype);
}

// --- GatherBlockQuantized ---

/// 4-bit integers of uint8, two a byte along the last dimension, the first in the low half.
Tensor unpacked(Emitter& e, const Tensor& pairs, const Expr& count) {
  Shape column = pairs.shape;
  column.emplace_back(1);
  const Tensor x = e.reshape(pairs, column);
  const Tensor low = e.node("aten::bitwise_and.Scalar",
                            {e.arg("self", x), attr_arg("other", Expr(15))}, x.dtype, column);
  const Tensor high = e.node("aten::bitwise_right_shift.Tensor_Scalar",
                             {e.arg("self", x), attr_arg("other", Expr(4))}, x.dtype, column);
  Shape shape = pairs.shape;
  shape.back() = shape.back() * Expr(2);
  const Tensor all = e.reshape(e.cat({low, high}, x.rank() - 1), shape);
  return e.slice(all, all.rank() - 1, 0, count);
}

/// The rows that GatherBlockQuantized reads, as tv::dequantize takes them.
struct Table {
  Tensor elements, zero;
  int64_t bits = 8, width = 0;
};

/// Elements of ONNX's types of 4 bits. Rows of an even size stay packed.
Table of_nibbles(OpContext& c, const Tensor& data, const Tensor& scale, int64_t width) {
  const Tensor zero = c.maybe(3);
  if (!data.stored || !four_bits(*data.stored).yes || width % 2) return {data, zero, 8, width};
  return {c.e.stored(packed_pairs(data.stored, false)),
          unsigned_zero(c.e, zero, scale, four_bits(*data.stored).is_signed), 4, width};
}

/// Elements of 4 or 8 bits in uint8: without zero points half of their range is subtracted.
Table of_bytes(OpContext& c, const Tensor& data, const Tensor& scale, int64_t bytes) {
  const int64_t bits = c.i("bits", 4);
  if (data.dtype != DType::kU8 || data.widened) refuse("data of another type than uint8 or int4");
  if (bits != 4 && bits != 8) refuse("data of " + std::to_string(bits) + " bits");
  Tensor zero = c.maybe(3);
  if (zero.present && bits == 4) zero = unpacked(c.e, zero, scale.shape[1]);
  if (!zero.present && bits == 8) zero = c.e.full(scale.shape, DType::kU8, 128);
  return {data, zero, bits, bytes * 8 / bits};
}

/// Rows of a table whose blocks do not divide them: dequantised element by element.
Tensor rows_of_cut_blocks(Emitter& e, const Table& from, const Tensor& scale, int64_t block,
                          const Tensor& ids) {
  const auto of_elements = [&](const Tensor& numbers) {  // one for each block
    const Tensor rows = e.index(numbers, 0, ids);
    const Expr count = rows.shape[0], blocks = rows.shape[1];
    const Tensor each = e.expand(e.unsqueeze(rows, 2), {count, blocks, Expr(block)});
    return e.slice(e.reshape(each, {count, blocks * Expr(block)}), 1, 0, Expr(from.width));
  };
  Tensor x = e.index(from.elements, 0, ids), zero = from.zero;
  if (from.bits == 4) {
    x = unpacked(e, x, Expr(from.width));
    if (!zero.present) zero = e.full(scale.shape, DType::kU8, 8);
  }
  return dequantized(e, x, of_elements(scale), zero.present ? of_elements(zero) : zero);
}

/// Rows of a matrix of 4- or 8-bit integers, in blocks along its last dimension.
void gather_block_quantized(OpContext& c) {
  Emitter& e = c.e;
  c.only({"bits", "block_size", "gather_axis", "quantize_axis"});
  const Tensor &data = c.in(0), &ids = c.in(1), &scale = scale_in(c, 2);
  const int64_t block = c.i("block_size", 128);
  if (data.rank() != 2 || scale.rank() != 2 || c.axis("gather_axis", 0, 2) != 0 ||
      c.axis("quantize_axis", 1, 2) != 1) {
    refuse("what is no matrix with rows to gather, in blocks along them");
  }
  const auto size = data.shape[1].constant();
  if (!size || block < 1) refuse("rows of a dynamic size");
  const bool nibbles =
      data.widened && stored_bytes(data.widened, 8) == 4 && small_float(data.widened).empty();
  if (scale.widened || ids.widened) refuse("scales or places of a type that engines do not hold");
  const Table from = nibbles ? of_nibbles(c, data, scale, *size) : of_bytes(c, data, scale, *size);
  e.equal(scale.shape[1], Expr((from.width + block - 1) / block));
  const Tensor places = e.reshape(ids, {product(ids.shape)});
  Shape shape = ids.shape;
  shape.emplace_back(from.width);
  if (from.width % block) {
    return c.out(0, e.reshape(rows_of_cut_blocks(e, from, scale, block, places), shape));
  }
  const Tensor table = e.node("tv::dequantize",
                              {e.arg("input", from.elements), e.arg("scale", scale),
                               e.arg("zero_point", from.zero), attr_arg("bits", Expr(from.bits))},
                              scale.dtype, {data.shape[0], Expr(from.width)});
  c.out(0, e.reshape(e.index(table, 0, places), shape));
}

const RegisterOnnx ops{
    {"com.microsoft::QLinearAdd", binary},
    {"com.microsoft::QLinearMul", binary},
    {"com.microsoft::QLinearSigmoid", sigmoid},
    {"com.microsoft::QLinearLeakyRelu", leaky_relu},
    {"com.microsoft::QLinearSoftmax", softmax},
    {"com.microsoft::QLinearConcat", concat},
    {"com.microsoft::QLinearWhere", where},
    {"com.microsoft::QLinearReduceMean", reduce_mean},
    {"com.microsoft::QLinearAveragePool", average_pool},
    {"com.microsoft::QLinearGlobalAveragePool", global_average_pool},
    {"com.microsoft::QGemm", gemm},
    {"com.microsoft::MatMulIntegerToFloat", matmul_integer_to_float},
    {"com.microsoft::DynamicQuantizeMatMul", dynamic_quantize_matmul},
    {"com.microsoft::GatherBlockQuantized", gather_block_quantized, Widened::kRead}};

}  // namespace
}  // namespace tv::onnx
