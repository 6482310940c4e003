#pragma once
// Numbers as the bits of a register.

#include <bit>
#include <cstdint>

#include "tests/cpp/kit/interpreter/program.h"

namespace tv::interpreter {

/// float16 from its bits, and back: to the nearest, ties to even, with denormals. Rounded once.
double from_half(uint64_t bits);
uint64_t to_half(double value);

/// A floating-point number of a type from its bits, and back, to the nearest.
double to_double(uint64_t bits, const Type& type);
uint64_t from_double(double value, const Type& type);

/// Bits of an integer as a signed number.
int64_t signed_of(uint64_t value, uint32_t bits);
inline uint64_t mask_of(uint32_t bits) {
  return bits >= 64 ? UINT64_MAX : (uint64_t{1} << bits) - 1;
}

/// f of numbers as wide as the type: rounded where the device rounds.
template <class F>
uint64_t of_floats(const Type& type, F f, uint64_t x, uint64_t y, uint64_t z = 0) {
  if (type.bits == 32) {
    const float r = f(std::bit_cast<float>(static_cast<uint32_t>(x)),
                      std::bit_cast<float>(static_cast<uint32_t>(y)),
                      std::bit_cast<float>(static_cast<uint32_t>(z)));
    return std::bit_cast<uint32_t>(r);
  }
  return from_double(f(to_double(x, type), to_double(y, type), to_double(z, type)), type);
}

}  // namespace tv::interpreter
