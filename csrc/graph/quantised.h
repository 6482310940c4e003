#pragma once
// Quantised tensors in the Graph: what tv::dequantize reads.

#include <array>
#include <string>
#include <string_view>

#include "csrc/graph/graph.h"

namespace tv {

/// The arguments of tv::dequantize(input, scale?, zero_point?, bits, format?):
/// (input - zero_point) · scale, computed in float32 and rounded once to the result's dtype.
///
/// `scale` and `zero_point` have one element for each block of the result: they are of its rank,
/// and each size is 1 or divides the result's. bits 8: `input` holds an integer an element. bits 4:
/// it is uint8 with two elements a byte along the last dimension, the first in the low half, 0 to
/// 15; without a zero point 8 is subtracted.
/// With a format the elements are the codes of small floating-point numbers, held as uint8, and
/// there are no zero points. What reads a quantised tensor itself (tv::matmul_quantised) takes such
/// codes for scales, too: of `scale_format`, held as uint8.
struct Quantised {
  ValueId input = kNoValue, scale = kNoValue, zero_point = kNoValue;
  int64_t bits = 8;
  std::string format, scale_format;  ///< of kSmallFloats; "": integers; scales of their dtype

  bool has_integers() const { return format.empty(); }
};

/// Floating-point numbers of 8 and 4 bits, by torch's names. Kernels have a function of each that
/// makes floats of codes: tv_from_float8_e4m3fn(uint) (converters/kit/glsl/small_floats.glsl).
inline constexpr std::array<std::string_view, 6> kSmallFloats = {
    "float8_e4m3fn",   "float8_e4m3fnuz", "float8_e5m2",
    "float8_e5m2fnuz", "float8_e8m0fnu",  "float4_e2m1fn"};

inline bool is_small_float(std::string_view format) {
  for (const std::string_view known : kSmallFloats) {
    if (known == format) return true;
  }
  return false;
}

/// The largest number of a format that tv::to_small_float(self, format, saturate) makes codes of;
/// 0: of another. Numbers are rounded to the nearest, halves to even. What is beyond the largest
/// becomes the largest, infinities too; without `saturate` NaN, of e5m2 infinity.
inline double largest_of(std::string_view format) {
  if (format == "float8_e4m3fn") return 448;
  if (format == "float8_e4m3fnuz") return 240;
  return format == "float8_e5m2" || format == "float8_e5m2fnuz" ? 57344 : 0;
}

inline Quantised quantised_of(const Node& node) {
  const auto format = [&](const char* arg) { return node.has(arg) ? node.text(arg) : ""; };
  return {node.input("input"),  node.input("scale"), node.input("zero_point"),
          node.integer("bits"), format("format"),    format("scale_format")};
}

/// The same as arguments of a node.
inline std::vector<Arg> arguments_of(const Quantised& q) {
  std::vector<Arg> args = {tensor_arg("input", q.input), tensor_arg("scale", q.scale),
                           tensor_arg("zero_point", q.zero_point), attr_arg("bits", Expr(q.bits))};
  if (!q.format.empty()) args.push_back(attr_arg("format", q.format));
  if (!q.scale_format.empty()) args.push_back(attr_arg("scale_format", q.scale_format));
  return args;
}

}  // namespace tv
