#pragma once
// Types of the operands of single instructions, so that a driver's compiler gets nothing that it
// takes on trust.

#include "runtime/spirv/module.h"

namespace tv {

/// Of an instruction in a function that returns `return_type`. Throws Error(kUser).
void check_instruction(const SpirvModule& module, const SpirvInstruction& i, uint32_t return_type);
/// Of a constant before the functions; passes over everything else there.
void check_constant(const SpirvModule& module, const SpirvInstruction& i);

/// Most bytes that one load or store moves, and the largest alignment that it may ask for.
inline constexpr uint64_t kMostAccessBytes = 4096, kMostAlignment = 64;
/// The bytes that an access to device memory of `pointee` touches; throws where it has no layout.
uint64_t access_bytes(const SpirvModule& module, uint32_t pointee);

/// The memory operands of a load or store: `mask` without Aligned, and the alignment, 0 for none.
struct MemoryOperands {
  uint32_t mask = 0, alignment = 0;
};
MemoryOperands memory_operands(const SpirvInstruction& i);

}  // namespace tv
