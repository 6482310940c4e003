#pragma once
// What the encoder takes and makes: plain data.

#include <array>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "runtime/base/debug.h"
#include "runtime/spec/engine_spec.h"

namespace tv {

/// Where a buffer lies as far as hazards go: `offset` in an address space. Buffers in different
/// spaces never overlap.
struct Placement {
  uint32_t space = 0;
  int64_t offset = 0;
};

struct EncodedDispatch {
  uint32_t dispatch = 0;  ///< index into the program
  uint32_t pipeline = 0;
  std::array<uint32_t, 3> grid = {1, 1, 1};
  uint32_t params_at = 0;  ///< byte offset into EncodedProgram::params
  uint32_t params_bytes = 0;
  bool guarded = false;  ///< a guard block lies at `guard_at`; its address is pushed
  uint32_t guard_at = 0;
  bool param_block = false;  ///< the parameters go to memory, their address is pushed
  bool barrier_before = false;
};

/// An 8-byte address inside `params`: base of `buffer` + `offset`.
struct AddressFix {
  uint32_t at = 0;
  uint32_t buffer = 0;
  int64_t offset = 0;
  uint32_t dispatch = 0;  ///< into EncodedProgram::dispatches
};

/// A buffer that lies elsewhere for one dispatch.
struct MovedBuffer {
  uint32_t dispatch = 0;  ///< into EncodedProgram::dispatches
  uint32_t buffer = 0;
  uint64_t address = 0;
};

struct EncodedProgram {
  std::vector<EncodedDispatch> dispatches;  ///< without those that have nothing to do
  std::vector<uint8_t> params;
  std::vector<AddressFix> fixes;
  int64_t barriers = 0;
};

struct EncodeRequest {
  const EngineSpec& spec;
  std::span<const Dispatch> program;
  std::span<const int64_t> symbols;
  std::span<const Placement> placements;  ///< of each EngineSpec::buffers
  std::array<uint32_t, 3> max_grid;
  DebugModes modes;
  int64_t max_iterations = std::numeric_limits<int64_t>::max();  ///< of an invocation's loops
  std::span<const uint32_t> guard_ranges = {};                   ///< GuardPlan::ranges
};

}  // namespace tv
