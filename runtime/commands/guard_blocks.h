#pragma once
// What kernels that runtime/spirv/guard.h rewrote are given with each dispatch: their push
// constants and the ranges that they may touch, in memory; and what they report.

#include <cstdint>
#include <span>
#include <vector>

#include "runtime/commands/encoded_program.h"
#include "runtime/vulkan/memory.h"

namespace tv {

/// How the kernels of an engine are guarded; empty if they are trusted.
struct GuardPlan {
  std::vector<uint32_t> ranges;  ///< of each pipeline: ranges in its guard blocks
  uint32_t max_iterations = 0;
  bool on() const { return !ranges.empty(); }
};

/// The plan for all pipelines of `spec`.
GuardPlan plan_guards(const EngineSpec& spec, uint32_t max_iterations);

/// Appends the guard block of a dispatch to `out.params`.
void append_guard(const EncodeRequest& request, const Dispatch& dispatch, EncodedProgram& out,
                  EncodedDispatch& encoded);

/// A word for each dispatch's report, zeros to read and a place to write to.
class GuardMemory {
 public:
  GuardMemory() = default;
  GuardMemory(Device& device, size_t dispatches);
  explicit operator bool() const { return static_cast<bool>(memory_); }
  uint64_t zeros() const { return memory_.address(); }
  uint64_t sink() const;
  uint64_t report(size_t dispatch) const;
  std::span<uint32_t> reports() const;
  const Allocation& memory() const { return memory_; }

 private:
  Allocation memory_;
  size_t dispatches_ = 0;
};

/// None where `guarded` is false.
GuardMemory make_guard_memory(Device& device, bool guarded, size_t dispatches);
/// Completes the guard blocks of `program`, whose addresses are patched and which will lie at
/// `blocks_address`.
void patch_guards(EncodedProgram& program, uint64_t blocks_address, const GuardMemory& memory);

/// Before a run.
void clear_guard(const GuardMemory& memory);
/// After it: throws Error(kUser), naming the first dispatch of `program` that left its operands or
/// was stopped.
void throw_guard_report(const GuardMemory& memory, std::span<const Dispatch> program);

}  // namespace tv
