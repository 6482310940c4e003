// ModelOpt's tensorrt::quantize_op: one node that quantises and dequantises, by the largest
// magnitude of a tensor, or of each of its blocks.

#include <cmath>
#include <string>

#include "converters/kit/steps.h"
#include "converters/quantised/dequantize.h"

namespace tv {
namespace {

// Of magnitudes up to here integers are 0, and floats rounded as if it were 1.
constexpr double kNoRange = 1.0 / (1 << 24);
constexpr const char* kFormat = "float8_e4m3fn";

bool is_float8(const NodeContext& c) {
  return c.node.integer("num_bits") == 8 && c.node.integer("exponent_bits") == 4;
}

/// amax has the tensor's rank, or one element.
Shape blocks_of(const NodeContext& c) {
  const Shape& whole = c.output().shape;
  const Shape amax = c.shape("amax");
  if (product(amax) == Expr(1)) return Shape(whole.size(), Expr(1));
  return amax;
}

std::string unsupported(const NodeContext& c) {
  const std::string head = "[" + c.node.op + "] ";
  const int64_t bits = c.node.integer("num_bits"), exponent = c.node.integer("exponent_bits");
  if (!is_float8(c) && (exponent != 0 || bits < 2 || bits > 8)) {
    return head + "numbers of " + std::to_string(bits) + " bits, " + std::to_string(exponent) +
           " of them the exponent's: known are integers of 2 to 8 bits, and float8_e4m3";
  }
  if (!is_float(c.dtype("input")) || !is_float(c.dtype("amax"))) return head + "want floats";
  const Shape &whole = c.output().shape, amax = blocks_of(c);
  bool fits = amax.size() == whole.size();
  for (size_t d = 0; fits && d < amax.size(); ++d) fits = amax[d] == Expr(1) || amax[d] == whole[d];
  return fits ? "" : head + "amax does not have the input's rank with each size 1 or the input's";
}

/// The elements of `q`, whose scale is amax / most: x · (most / amax), rounded and clamped.
void expand(const NodeContext& c, Rewriter& rw) {
  const Shape& whole = c.output().shape;
  const bool is_signed = !c.node.flag("unsigned");
  const double most = is_float8(c) ? largest_of(kFormat)
                                   : std::exp2(c.node.number("num_bits") - (is_signed ? 1 : 0)) - 1;
  const double least = !is_signed && !is_float8(c)                   ? 0
                       : is_float8(c) || c.node.flag("narrow_range") ? -most
                                                                     : -most - 1;
  ValueId amax = rw.reshape(rw.cast(c.node.input("amax"), DType::kF32), blocks_of(c));
  const ValueId seen = rw.pointwise("gt", {amax}, DType::kBool, {kNoRange});
  const ValueId zeros = rw.pointwise("mul", {amax}, DType::kF32, {0.0});
  if (is_float8(c)) {
    const ValueId ones = rw.pointwise("add", {zeros}, DType::kF32, {1.0});
    amax = rw.pointwise("where", {seen, amax, ones}, DType::kF32);
  }
  ValueId steps = rw.pointwise("rdiv", {amax}, DType::kF32, {most});
  if (!is_float8(c)) steps = rw.pointwise("where", {seen, steps, zeros}, DType::kF32);
  ValueId x =
      rw.pointwise("mul", {rw.cast(c.node.input("input"), DType::kF32), steps}, DType::kF32);
  Quantised q{.scale = rw.pointwise("div", {amax}, DType::kF32, {most})};
  if (is_float8(c)) {
    q.format = kFormat;
    q.input =
        rw.add("tv::to_small_float",
               {tensor_arg("self", x), attr_arg("format", q.format), attr_arg("saturate", true)},
               DType::kU8, whole);
  } else {
    x = rw.add("aten::round", {tensor_arg("self", x)}, DType::kF32, whole);
    x = rw.pointwise("clamp", {x}, DType::kF32, {least, most});
    q.input = rw.cast(rw.cast(x, DType::kI32), is_signed ? DType::kI8 : DType::kU8);
  }
  rw.replace(0, dequantize_of(rw, q, c.output().dtype, whole));
}

const RegisterConverter quantize_op{typed(Converter{.op = "tensorrt::quantize_op",
                                                    .unsupported = unsupported,
                                                    .expand = expand,
                                                    .translates = true},
                                          "input [*s] -> [*s]")};

}  // namespace
}  // namespace tv
