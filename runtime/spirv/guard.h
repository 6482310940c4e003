#pragma once
// Rewrites a kernel of unknown origin so that it touches nothing but the operands of its dispatch.
//
// Every access to device memory goes through a function that compares it with the ranges of the
// dispatch; what lies outside of them, or is not aligned as the kernel says, reads zeros or is
// written to where nobody reads. Indices of arrays and vectors in variables are kept inside of
// them. Loops count their rounds. Variables begin as zeros. The push constants become memory: what
// is pushed is the address of a guard block, which holds them and the ranges.

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/spirv/rules.h"

namespace tv {

/// A guard block, in bytes; offsets of 64-bit words after the push constants' 128.
inline constexpr uint32_t kGuardReport = 128;  ///< address of a word that gets the bits below
inline constexpr uint32_t kGuardZeros = 136, kGuardSink = 144;  ///< of kMostAccessBytes each
inline constexpr uint32_t kGuardRanges = 160, kGuardRangeBytes = 24;
/// A range: its address, the bytes that may be read, and those that may be written.
constexpr uint32_t guard_block_bytes(uint32_t ranges) {
  return kGuardRanges + ranges * kGuardRangeBytes;
}

/// Bits of a report.
inline constexpr uint32_t kGuardRead = 1, kGuardWrite = 2, kGuardLoop = 4;

struct GuardRequest {
  uint32_t ranges = 0;                ///< in a guard block
  uint32_t max_iterations = 1 << 26;  ///< rounds of all loops of an invocation together
  SpirvLimits limits = {};
};

/// Throws Error(kUser) on a module that cannot be bounded; never reads beyond `module`.
std::vector<uint32_t> guard_spirv(std::span<const uint32_t> module, const GuardRequest& request);

}  // namespace tv
