#include "tests/cpp/kit/interpreter/numbers.h"

#include <cmath>

namespace tv::interpreter {

namespace {

uint64_t to_bfloat16(double value) {
  const auto u = std::bit_cast<uint32_t>(static_cast<float>(value));
  if (std::isnan(value)) return 0x7fc0U;
  return (u + 0x7fffU + (u >> 16 & 1U)) >> 16 & 0xffffU;
}

}  // namespace

double from_half(uint64_t h) {
  const auto exponent = static_cast<int>(h >> 10 & 31);
  const auto fraction = static_cast<double>(h & 1023);
  double value =
      exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25);
  if (exponent == 31) value = fraction != 0 ? NAN : INFINITY;
  return (h & 0x8000U) != 0 ? -value : value;
}

uint64_t to_half(double value) {
  const uint64_t sign = std::signbit(value) ? 0x8000 : 0;
  const double a = std::abs(value);
  if (std::isnan(value)) return sign | 0x7e00U;
  if (a >= 65520) return sign | 0x7c00U;
  if (a < 0x1p-14) return sign | static_cast<uint64_t>(std::nearbyint(a * 0x1p24));
  int exponent = 0;
  const double fraction = std::frexp(a, &exponent);  // in [0.5, 1)
  const auto mantissa = static_cast<uint64_t>(std::nearbyint(fraction * 0x1p11));
  return sign | ((static_cast<uint64_t>(exponent + 13) << 10) + mantissa);
}

int64_t signed_of(uint64_t value, uint32_t bits) {
  return static_cast<int64_t>(value << (64 - bits)) >> (64 - bits);
}

double to_double(uint64_t bits, const Type& type) {
  switch (type.bits) {
    case 16:
      if (type.bfloat16) return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
      return from_half(bits);
    case 32:
      return std::bit_cast<float>(static_cast<uint32_t>(bits));
    default:
      return std::bit_cast<double>(bits);
  }
}

uint64_t from_double(double value, const Type& type) {
  switch (type.bits) {
    case 16:
      return type.bfloat16 ? to_bfloat16(value) : to_half(value);
    case 32:
      return std::bit_cast<uint32_t>(static_cast<float>(value));
    default:
      return std::bit_cast<uint64_t>(value);
  }
}

}  // namespace tv::interpreter
