#pragma once
// Executes SPIR-V compute modules, those of the matrix units too, with every access checked: for
// tests of kernels that no device here runs.
//
// An invocation runs until it comes to what its subgroup or workgroup does together - a barrier, an
// operation of the subgroup, one of cooperative matrices - which happens when all of them are
// there. Where some go another way, that is a Fault, and so are an access outside of what the
// dispatch may touch, one that is not aligned as it says, an index beyond its array, and shared
// memory that is written and read without a barrier between. What was not computed is no number.
// Numbers are those of IEEE 754; products of matrices are exact sums, cut once, as NVIDIA's units
// do.

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "tests/cpp/kit/interpreter/memory.h"

namespace tv::interpreter {

struct Launch {
  std::array<uint32_t, 3> groups = {1, 1, 1};
  std::span<const uint8_t> push_constants;
};

/// Runs every workgroup of a dispatch. Throws Fault, which says which invocation did what.
void dispatch(const Program& program, const Launch& launch, const DeviceMemory& memory);

}  // namespace tv::interpreter
