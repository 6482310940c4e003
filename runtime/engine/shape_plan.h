#pragma once
// What a context needs for one set of symbol values.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "runtime/commands/encoder.h"
#include "runtime/engine/weight_set.h"

namespace tv {

/// Everything about one set of symbol values that does not depend on addresses.
struct ShapePlan {
  std::vector<int64_t> symbols;
  EncodedProgram program;
  std::vector<Placement> placements;  ///< space 0: the arena
  std::vector<int64_t> input_bytes, output_bytes;
  /// What a staged device hands back: `bytes` from `arena_at` of the arena, through `host_at` of
  /// the readback memory, to the tensor of `slot` (inputs, then outputs).
  struct Result {
    size_t slot = 0;
    int64_t arena_at = 0, host_at = 0, bytes = 0;
  };
  std::vector<Result> results;
  int64_t readback_bytes = 0;
  /// Offsets in the arena of the device's copies of inputs, then outputs (staged devices).
  std::vector<int64_t> copy_offsets;
  int64_t activation_bytes = 0;  ///< of the memory plan
  int64_t arena_bytes = 0;       ///< with the copies
};

/// Throws Error(kUser) on symbols out of range.
ShapePlan plan_shape(const EngineParts& parts, std::span<const int64_t> symbols);

}  // namespace tv
