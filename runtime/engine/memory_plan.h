#pragma once
// Offsets of the buffers in an activation arena: a pure function, run once per concrete shape.

#include <cstdint>
#include <span>
#include <vector>

namespace tv {

/// A buffer that must keep its bytes from dispatch `first` to dispatch `last`, both included.
struct BufferLifetime {
  int64_t size_bytes = 0;
  int32_t first = 0, last = 0;
};

struct MemoryPlan {
  std::vector<int64_t> offsets;  ///< in the order of the lifetimes; multiples of the alignment
  int64_t total_bytes = 0;       ///< a multiple of the alignment
};

/// Where buffers begin.
inline constexpr int64_t kBufferAlignment = 256;

/// Gives buffers whose lifetimes overlap disjoint byte ranges and lets the others share. Greedy by
/// size, each into the tightest gap that holds it (Pisarchyk and Lee, "Efficient Memory Management
/// for Deep Neural Net Inference", 2020, section 5.2). Deterministic; quadratic in the buffers.
MemoryPlan plan_memory(std::span<const BufferLifetime> buffers,
                       int64_t alignment = kBufferAlignment);

}  // namespace tv
