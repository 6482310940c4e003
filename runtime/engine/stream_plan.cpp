#include "runtime/engine/stream_plan.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace tv {
namespace {

// What a queue copies at a time: long beside the wait for a semaphore (some 20 us), short beside
// the memory of a device. 32 MiB take PCIe 4 a millisecond.
constexpr int64_t kMostSegmentBytes = 32 << 20;
constexpr int64_t kLeastSegmentBytes = 256;
constexpr int64_t kLeastSegments = 16;
constexpr int64_t kSmallShare = 1024;  ///< smaller parts of all weights are not worth a copy

/// Buffers in the order in which launches read them; tables that are only looked up apart.
struct Readers {
  std::vector<size_t> products, tables;
};

Readers readers_of(const EngineSpec& spec, std::span<const int64_t> bytes) {
  constexpr size_t kNever = std::numeric_limits<size_t>::max();
  std::vector<size_t> first(spec.buffers.size(), kNever);
  std::vector<bool> is_table(spec.buffers.size(), true);
  Readers readers;
  for (size_t d = 0; d < spec.dispatches.size(); ++d) {
    for (const OperandRange& operand : spec.dispatches[d].operands) {
      if (bytes[operand.buffer] <= 0) continue;
      first[operand.buffer] = std::min(first[operand.buffer], d);
      if (!spec.dispatches[d].looks_up) is_table[operand.buffer] = false;
    }
  }
  for (size_t b = 0; b < spec.buffers.size(); ++b) {
    if (bytes[b] > 0) (is_table[b] ? readers.tables : readers.products).push_back(b);
  }
  std::ranges::stable_sort(readers.products, {}, [&](size_t b) { return first[b]; });
  return readers;
}

/// Buffers that a launch reads from the slots, each once.
std::vector<uint32_t> copied_for(const Dispatch& dispatch, const std::vector<bool>& streamed) {
  std::vector<uint32_t> buffers;
  if (dispatch.looks_up) return buffers;
  for (const OperandRange& operand : dispatch.operands) {
    const bool known = std::ranges::find(buffers, operand.buffer) != buffers.end();
    if (streamed[operand.buffer] && !known) buffers.push_back(operand.buffer);
  }
  return buffers;
}

int64_t segment_bytes(const EngineSpec& spec, std::span<const int64_t> bytes,
                      const std::vector<bool>& streamed) {
  std::vector<bool> counted(spec.buffers.size(), false);
  int64_t all = 0;
  for (const Dispatch& dispatch : spec.dispatches) {
    for (const uint32_t b : copied_for(dispatch, streamed)) {
      if (!counted[b]) all += bytes[b];
      counted[b] = true;
    }
  }
  return std::clamp(all / kLeastSegments, kLeastSegmentBytes, kMostSegmentBytes);
}

bool overlap(const StreamPlan::Segment& a, const StreamPlan::Segment& b) {
  return a.begin < b.end && b.begin < a.end;
}

/// Where the next segment's copies go: behind the last one's or at either end, whichever was used
/// longest ago.
int64_t place(std::span<const StreamPlan::Segment> placed, int64_t bytes, int64_t slot_bytes) {
  const int64_t behind = placed.empty() ? 0 : placed.back().end;
  int64_t best = 0;
  size_t best_age = 0;
  for (const int64_t at : {behind, int64_t{0}, slot_bytes - bytes}) {
    if (at + bytes > slot_bytes) continue;
    const StreamPlan::Segment here{.begin = at, .end = at + bytes};
    size_t age = 1;
    while (age <= placed.size() && !overlap(placed[placed.size() - age], here)) ++age;
    if (age <= best_age) continue;
    best = at;
    best_age = age;
  }
  return best;
}

/// Two segments that follow each other fit, and a small one beside them.
int64_t slot_bytes_for(std::span<const StreamPlan::Segment> segments, int64_t target) {
  int64_t most = 0, all = 0, before = 0;
  for (const StreamPlan::Segment& segment : segments) {
    most = std::max(most, before + segment.end);
    before = segment.end;
    all += before;
  }
  return std::min(most + target, all);
}

void place_segments(StreamPlan& plan, int64_t target) {
  plan.slot_bytes = slot_bytes_for(plan.segments, target);
  for (size_t s = 0; s < plan.segments.size(); ++s) {
    StreamPlan::Segment& segment = plan.segments[s];
    const int64_t at = place(std::span(plan.segments).first(s), segment.end, plan.slot_bytes);
    segment.begin = at;
    segment.end += at;
    for (StreamPlan::Copy& copy : segment.copies) copy.at += at;
  }
}

}  // namespace

std::vector<bool> choose_streamed(const EngineSpec& spec, std::span<const int64_t> bytes,
                                  int64_t budget) {
  std::vector<bool> streamed(spec.buffers.size(), false);
  const int64_t all = std::reduce(bytes.begin(), bytes.end(), int64_t{0});
  if (all <= budget) return streamed;
  for (size_t b = 0; b < bytes.size(); ++b) streamed[b] = bytes[b] > 0;
  int64_t left = std::max<int64_t>(budget, 0);
  const auto keep = [&](size_t b) {
    if (!streamed[b] || bytes[b] > left) return;
    streamed[b] = false;
    left -= bytes[b];
  };
  const Readers readers = readers_of(spec, bytes);
  for (const size_t b : readers.products) {
    if (bytes[b] <= all / kSmallShare) keep(b);
  }
  int64_t rest = 0, seen = 0, kept = 0;
  for (const size_t b : readers.products) rest += streamed[b] ? bytes[b] : 0;
  const double share = rest > 0 ? static_cast<double>(left) / static_cast<double>(rest) : 0;
  for (const size_t b : readers.products) {
    if (!streamed[b]) continue;
    seen += bytes[b];
    if (static_cast<double>(kept + bytes[b]) > share * static_cast<double>(seen)) continue;
    keep(b);
    if (!streamed[b]) kept += bytes[b];
  }
  for (const auto* group : {&readers.products, &readers.tables}) {
    std::vector<size_t> largest(*group);
    std::ranges::stable_sort(largest, std::greater<>(), [&](size_t b) { return bytes[b]; });
    for (const size_t b : largest) keep(b);
  }
  return streamed;
}

StreamPlan plan_stream(const EngineSpec& spec, std::span<const int64_t> bytes,
                       const std::vector<bool>& streamed) {
  StreamPlan plan;
  const int64_t target = segment_bytes(spec, bytes, streamed);
  plan.segments.push_back({.first = 0});
  for (size_t d = 0; d < spec.dispatches.size(); ++d) {
    std::vector<uint32_t> wanted = copied_for(spec.dispatches[d], streamed);
    const auto is_there = [&](uint32_t b) {
      const auto& copies = plan.segments.back().copies;
      return std::ranges::find(copies, b, &StreamPlan::Copy::buffer) != copies.end();
    };
    int64_t more = 0;
    for (const uint32_t b : wanted) more += is_there(b) ? 0 : bytes[b];
    const bool is_full = more > 0 && plan.segments.back().end + more > target;
    if (is_full && !plan.segments.back().copies.empty()) plan.segments.push_back({.first = d});
    for (const uint32_t b : wanted) {
      if (is_there(b)) continue;
      StreamPlan::Segment& segment = plan.segments.back();
      segment.copies.push_back({b, bytes[b], segment.end});
      segment.end += bytes[b];
    }
  }
  place_segments(plan, target);
  return plan;
}

int64_t slot_bytes_at_most(std::span<const int64_t> bytes) {
  // A launch reads two or three weights at most; a segment is one launch or below the limit.
  const int64_t largest = bytes.empty() ? 0 : *std::ranges::max_element(bytes);
  return 2 * std::max(2 * largest, kMostSegmentBytes) + kMostSegmentBytes;
}

std::vector<size_t> reuse_distances(std::span<const StreamPlan::Segment> segments) {
  const size_t count = segments.size();
  std::vector<size_t> distances(count, 0);
  for (size_t s = 0; s < count; ++s) {
    if (segments[s].copies.empty()) continue;
    size_t back = 1;
    while (!overlap(segments[s], segments[(s + count - back) % count])) ++back;
    distances[s] = back;
  }
  return distances;
}

}  // namespace tv
