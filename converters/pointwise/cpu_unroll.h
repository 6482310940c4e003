#pragma once
// How much of a pointwise kernel's work an invocation does on CPU drivers.

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "csrc/graph/pointwise_program.h"

namespace tv {

/// Elements that an invocation computes on a CPU driver, a power of two up to 32: a workgroup costs
/// some 100 ns there, and each element is one more copy of the program, which takes the driver
/// minutes to compile where it makes thousands of operations.
inline uint32_t cpu_unroll(const PointwiseProgram& program) {
  constexpr size_t kMostElements = 32, kMostOperations = 1024;
  const size_t size = program.instrs.size() + program.inputs.size() + program.results.size();
  const size_t copies = kMostOperations / std::max<size_t>(size, 1);
  return static_cast<uint32_t>(std::bit_floor(std::clamp<size_t>(copies, 1, kMostElements)));
}

}  // namespace tv
