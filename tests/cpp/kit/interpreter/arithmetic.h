#pragma once
// What instructions compute from registers alone.

#include <cstdint>

#include "tests/cpp/kit/interpreter/numbers.h"

namespace tv::interpreter {

/// Executes it on an invocation's registers; false where it is none of these. Throws Fault.
bool compute(const Instruction& instruction, uint64_t* registers);

/// The GLSL.std.450 function `which` of up to three numbers.
uint64_t extended(uint32_t which, const Type& type, uint64_t x, uint64_t y, uint64_t z);

/// A binary operation of numbers, as OpIAdd and its like number them.
uint64_t binary(uint16_t op, const Type& type, uint64_t x, uint64_t y);

}  // namespace tv::interpreter
