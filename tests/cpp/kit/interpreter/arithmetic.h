#pragma once
// What instructions compute from registers alone.

#include <cstdint>

#include "tests/cpp/kit/interpreter/program.h"

namespace tv::interpreter {

/// Executes it on an invocation's registers; false where it is none of these. Throws Fault.
bool compute(const Instruction& instruction, uint64_t* registers);

/// A floating-point number of a type from its bits, and back, to the nearest.
double to_double(uint64_t bits, const Type& type);
uint64_t from_double(double value, const Type& type);

/// Bits of an integer as a signed number.
int64_t signed_of(uint64_t value, uint32_t bits);
inline uint64_t mask_of(uint32_t bits) {
  return bits >= 64 ? UINT64_MAX : (uint64_t{1} << bits) - 1;
}

/// The GLSL.std.450 function `which` of up to three numbers.
uint64_t extended(uint32_t which, const Type& type, uint64_t x, uint64_t y, uint64_t z);

/// A binary operation of numbers, as OpIAdd and its like number them.
uint64_t binary(uint16_t op, const Type& type, uint64_t x, uint64_t y);

}  // namespace tv::interpreter
