#pragma once
// What a module has to keep to so that runtime/spirv/guard.h can bound what it touches.

#include <cstdint>
#include <vector>

#include "runtime/spirv/module.h"

namespace tv {

/// Of a device, and of a cautious mind.
struct SpirvLimits {
  uint64_t shared_bytes = 32768;
  uint64_t invocations = 1024;         ///< of a workgroup
  uint64_t private_bytes = 256 << 10;  ///< of an invocation's variables
  uint64_t instructions = 4 << 20;     ///< with every call expanded
};

/// A branch back to the head of a loop.
struct BackEdge {
  size_t branch = 0;        ///< the instruction, the last of its block
  size_t count_before = 0;  ///< where that block takes other instructions: before its merge, if any
  uint32_t header = 0, merge = 0;  ///< labels
};

struct SpirvFacts {
  uint32_t entry = 0;                ///< the function
  uint32_t push = 0;                 ///< the variable of the push constants; 0: none
  std::vector<BackEdge> back_edges;  ///< in the order of the module
};

/// Throws Error(kUser) on descriptors, stages other than compute, recursion, unstructured loops,
/// values of wrong types, too much memory.
SpirvFacts check_spirv(const SpirvModule& module, const SpirvLimits& limits);

/// Throws Error(kUser) if functions call themselves or the entry point, or where that has more
/// than `most` instructions with its calls expanded, as drivers do.
void check_calls(const SpirvModule& module, uint32_t entry, uint64_t most);

/// Throws Error(kUser) if a value is used that some path to there, which may leave each loop at
/// its back edge, too, has not computed.
void check_scopes(const SpirvModule& module, const SpirvFacts& facts);

/// The type that a chain of indices leads to from `type`; throws where an index is wrong.
uint32_t chain_step(const SpirvModule& module, uint32_t type, uint32_t index);

}  // namespace tv
