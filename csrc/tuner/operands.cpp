#include "csrc/tuner/operands.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

namespace tv {

namespace {

template <typename T>
T load(const uint8_t* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

template <typename T>
void store(uint8_t* at, T value) {
  std::memcpy(at, &value, sizeof value);
}

double from_half(uint16_t bits) {
  const int exponent = (bits >> 10) & 31, mantissa = bits & 1023;
  double value = exponent == 0    ? std::ldexp(mantissa, -24)
                 : exponent == 31 ? (mantissa ? NAN : INFINITY)
                                  : std::ldexp(1024 + mantissa, exponent - 25);
  return bits & 0x8000 ? -value : value;
}

/// Of a multiple of 2⁻¹⁰ in [-1, 1).
uint16_t to_half(float value) {
  if (value == 0) return 0;
  const auto bits = std::bit_cast<uint32_t>(value);
  const uint32_t exponent = ((bits >> 23) & 255) - 127 + 15;
  return static_cast<uint16_t>((bits >> 16 & 0x8000) | exponent << 10 | (bits >> 13 & 1023));
}

/// The upper bits of Numerical Recipes' linear congruence (section 7.1).
class Random {
 public:
  explicit Random(uint32_t seed) : state_(seed * 2654435761U + 1) {}
  uint32_t next24() {
    state_ = state_ * 1664525U + 1013904223U;
    return state_ >> 8;
  }
  /// A multiple of 1 / steps in [-1, 1).
  float signed_unit(uint32_t steps) {
    const auto n = static_cast<int32_t>(next24() % (2 * steps)) - static_cast<int32_t>(steps);
    return static_cast<float>(n) / static_cast<float>(steps);
  }

 private:
  uint32_t state_;
};

}  // namespace

std::vector<uint8_t> random_operand(DType dtype, uint32_t seed, int64_t below) {
  const int64_t size = size_bytes(dtype);
  std::vector<uint8_t> bytes(static_cast<size_t>(kOperandPeriod * size));
  Random random(seed);
  const auto limit = static_cast<uint32_t>(
      std::clamp<int64_t>(below, 1, dtype == DType::kI8 || dtype == DType::kU8 ? 128 : 32768));
  for (int64_t i = 0; i < kOperandPeriod; ++i) {
    uint8_t* at = bytes.data() + i * size;
    switch (dtype) {
      case DType::kF32:
        store(at, random.signed_unit(1 << 23));
        break;
      case DType::kF64:
        store(at, double{random.signed_unit(1 << 23)});
        break;
      case DType::kF16:
        store(at, to_half(random.signed_unit(1024)));
        break;
      case DType::kBF16:
        store(at, static_cast<uint16_t>(std::bit_cast<uint32_t>(random.signed_unit(128)) >> 16));
        break;
      case DType::kI64:
        store(at, static_cast<int64_t>(random.next24() % limit));
        break;
      case DType::kI32:
        store(at, static_cast<int32_t>(random.next24() % limit));
        break;
      case DType::kI16:
        store(at, static_cast<int16_t>(random.next24() % limit));
        break;
      case DType::kI8:
      case DType::kU8:
        *at = static_cast<uint8_t>(random.next24() % limit);
        break;
      case DType::kBool:
        *at = static_cast<uint8_t>(random.next24() & 1);
        break;
      case DType::kOther:
        break;
    }
  }
  return bytes;
}

double element(DType dtype, const uint8_t* bytes, int64_t i) {
  const uint8_t* at = bytes + i * size_bytes(dtype);
  switch (dtype) {
    case DType::kF32:
      return load<float>(at);
    case DType::kF64:
      return load<double>(at);
    case DType::kF16:
      return from_half(load<uint16_t>(at));
    case DType::kBF16:
      return std::bit_cast<float>(uint32_t{load<uint16_t>(at)} << 16);
    case DType::kI64:
      return static_cast<double>(load<int64_t>(at));
    case DType::kI32:
      return load<int32_t>(at);
    case DType::kI16:
      return load<int16_t>(at);
    case DType::kI8:
      return load<int8_t>(at);
    case DType::kU8:
    case DType::kBool:
      return *at;
    case DType::kOther:
      break;
  }
  return 0;
}

}  // namespace tv
