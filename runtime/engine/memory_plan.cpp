#include "runtime/engine/memory_plan.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace tv {

namespace {

int64_t round_up_bytes(int64_t value, int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

bool overlap_in_time(const BufferLifetime& a, const BufferLifetime& b) {
  return a.first <= b.last && b.first <= a.last;
}

/// Start of the tightest gap of at least `size` bytes between `taken` (sorted by offset), or the
/// end of the last where there is none.
int64_t best_gap(const std::vector<std::pair<int64_t, int64_t>>& taken, int64_t size) {
  int64_t end = 0, best = -1, best_slack = std::numeric_limits<int64_t>::max();
  for (const auto& [offset, length] : taken) {
    const int64_t slack = offset - end - size;
    if (slack >= 0 && slack < best_slack) best = end, best_slack = slack;
    end = std::max(end, offset + length);
  }
  return best >= 0 ? best : end;
}

}  // namespace

MemoryPlan plan_memory(std::span<const BufferLifetime> buffers, int64_t alignment) {
  std::vector<size_t> order(buffers.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return buffers[a].size_bytes > buffers[b].size_bytes;
  });

  MemoryPlan plan;
  plan.offsets.assign(buffers.size(), 0);
  std::vector<size_t> placed;  // sorted by offset
  for (size_t i : order) {
    const int64_t size = round_up_bytes(buffers[i].size_bytes, alignment);
    std::vector<std::pair<int64_t, int64_t>> taken;
    for (size_t j : placed) {
      if (overlap_in_time(buffers[i], buffers[j])) {
        taken.emplace_back(plan.offsets[j], round_up_bytes(buffers[j].size_bytes, alignment));
      }
    }
    plan.offsets[i] = best_gap(taken, size);
    plan.total_bytes = std::max(plan.total_bytes, plan.offsets[i] + size);
    placed.insert(
        std::upper_bound(placed.begin(), placed.end(), i,
                         [&](size_t a, size_t b) { return plan.offsets[a] < plan.offsets[b]; }),
        i);
  }
  return plan;
}

}  // namespace tv
