#pragma once
// Numbers of 8 and 4 bits by their definitions, for comparison with what kernels make of codes.

#include <cmath>
#include <string_view>

namespace tv::test {

/// The number that a code of a format of kSmallFloats stands for: sign, exponent, mantissa.
inline double small_float(std::string_view format, int code) {
  if (format == "float8_e8m0fnu") return code == 255 ? NAN : std::ldexp(1.0, code - 127);
  const bool fnuz = format.ends_with("fnuz"), e5m2 = format.starts_with("float8_e5m2");
  const bool four = format == "float4_e2m1fn";
  const int mantissa_bits = four ? 1 : e5m2 ? 2 : 3, exponent_bits = four ? 2 : e5m2 ? 5 : 4;
  const int sign = code >> (mantissa_bits + exponent_bits) & 1;
  const int exponent = code >> mantissa_bits & ((1 << exponent_bits) - 1);
  const int mantissa = code & ((1 << mantissa_bits) - 1);
  const int bias = (1 << (exponent_bits - 1)) - (fnuz ? 0 : 1);
  if (fnuz && code == 0x80) return NAN;
  if (format == "float8_e4m3fn" && exponent == 15 && mantissa == 7) return NAN;
  if (format == "float8_e5m2" && exponent == 31) {
    return mantissa != 0 ? NAN : sign != 0 ? -INFINITY : INFINITY;
  }
  const int leading = exponent == 0 ? 0 : 1 << mantissa_bits;
  const double size = std::ldexp(leading + mantissa, std::max(exponent, 1) - bias - mantissa_bits);
  return sign != 0 ? -size : size;
}

}  // namespace tv::test
