// Which weights are streamed, and through which parts of the slots.

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "runtime/engine/stream_plan.h"

namespace tv::test {
namespace {

/// One launch for each list of weights that it reads; weight b is buffer b.
EngineSpec launches(const std::vector<std::vector<uint32_t>>& reads, size_t weights) {
  EngineSpec spec;
  for (size_t b = 0; b < weights; ++b)
    spec.buffers.push_back({BufferKind::kWeight, static_cast<uint32_t>(b), Expr(0), ""});
  for (const auto& buffers : reads) {
    Dispatch d;
    for (const uint32_t b : buffers) d.operands.push_back({b, 0, 0, true, false});
    spec.dispatches.push_back(d);
  }
  return spec;
}

/// A launch for each weight, in order.
EngineSpec chain(size_t weights) {
  std::vector<std::vector<uint32_t>> reads;
  for (uint32_t b = 0; b < weights; ++b) reads.push_back({b});
  return launches(reads, weights);
}

int64_t kept(std::span<const int64_t> bytes, const std::vector<bool>& streamed) {
  int64_t sum = 0;
  for (size_t b = 0; b < bytes.size(); ++b) sum += streamed[b] ? 0 : bytes[b];
  return sum;
}

const StreamPlan::Segment& segment_of(const StreamPlan& plan, size_t dispatch) {
  const auto next =
      std::ranges::upper_bound(plan.segments, dispatch, {}, &StreamPlan::Segment::first);
  return *std::prev(next);
}

void expect_sound(const EngineSpec& spec, std::span<const int64_t> bytes,
                  const std::vector<bool>& streamed) {
  const StreamPlan plan = plan_stream(spec, bytes, streamed);
  for (size_t d = 0; d < spec.dispatches.size(); ++d) {
    const auto& copies = segment_of(plan, d).copies;
    for (const OperandRange& operand : spec.dispatches[d].operands) {
      const auto found = std::ranges::find(copies, operand.buffer, &StreamPlan::Copy::buffer);
      ASSERT_EQ(found != copies.end(), streamed[operand.buffer]) << d << " " << operand.buffer;
    }
  }
  for (const StreamPlan::Segment& segment : plan.segments) {
    int64_t at = segment.begin;
    for (const StreamPlan::Copy& copy : segment.copies) {
      ASSERT_EQ(copy.at, at);
      ASSERT_EQ(copy.bytes, bytes[copy.buffer]);
      at += copy.bytes;
    }
    ASSERT_EQ(at, segment.end);
    ASSERT_LE(at, plan.slot_bytes);
  }
  // Copies of a later segment, in any turn, must not begin before the launches of an earlier one
  // that read the same part are over.
  const std::vector<size_t> reuse = reuse_distances(plan.segments);
  const size_t count = plan.segments.size();
  for (size_t early = 0; early < count; ++early) {
    for (size_t late = early + 1; late < early + 2 * count; ++late) {
      const StreamPlan::Segment &a = plan.segments[early], &b = plan.segments[late % count];
      if (a.copies.empty() || b.copies.empty() || a.begin >= b.end || b.begin >= a.end) continue;
      ASSERT_GE(late - reuse[late % count], early) << early << " " << late;
    }
  }
}

TEST(StreamPlan, IsSoundForAnyWeightsAndBudgets) {
  std::mt19937 random(11);
  for (int round = 0; round < 200; ++round) {
    const size_t weights = 1 + random() % 40;
    std::vector<int64_t> bytes;
    for (size_t b = 0; b < weights; ++b) {
      const int64_t large = random() % 8 == 0 ? 100000 : 1000;
      bytes.push_back(256 * (1 + static_cast<int64_t>(random() % large)));
    }
    std::vector<std::vector<uint32_t>> reads;
    for (size_t d = 0; d < 60; ++d) {
      reads.emplace_back();
      for (size_t k = random() % 4; k > 0; --k)
        reads.back().push_back(static_cast<uint32_t>(random() % weights));
    }
    const EngineSpec spec = launches(reads, weights);
    const int64_t all = std::reduce(bytes.begin(), bytes.end(), int64_t{0});
    for (const int64_t budget : {int64_t{0}, int64_t{256}, all / 3, all - 1}) {
      const std::vector<bool> streamed = choose_streamed(spec, bytes, budget);
      ASSERT_LE(kept(bytes, streamed), budget);
      expect_sound(spec, bytes, streamed);
    }
    ASSERT_EQ(kept(bytes, choose_streamed(spec, bytes, all)), all);
  }
}

TEST(StreamPlan, SpreadsWhatIsStreamedOverTheLaunches) {
  const EngineSpec spec = chain(100);
  const std::vector<int64_t> bytes(100, 1 << 20);
  const std::vector<bool> streamed = choose_streamed(spec, bytes, 60 << 20);
  EXPECT_EQ(std::ranges::count(streamed, true), 40);
  int64_t so_far = 0;
  for (size_t b = 0; b < 100; ++b) {
    so_far += streamed[b] ? 1 : 0;
    EXPECT_NEAR(static_cast<double>(so_far), 0.4 * static_cast<double>(b + 1), 1.01) << b;
  }
}

TEST(StreamPlan, SlotsAreFewAndLetCopiesRunAhead) {
  const EngineSpec spec = chain(200);
  const std::vector<int64_t> bytes(200, 8 << 20);
  const StreamPlan plan = plan_stream(spec, bytes, std::vector<bool>(200, true));
  EXPECT_LE(plan.slot_bytes, 128 << 20);
  for (const size_t reuse : reuse_distances(plan.segments)) EXPECT_GE(reuse, 2U);
}

TEST(StreamPlan, AWeightLargerThanASegmentHasRoom) {
  const EngineSpec spec = chain(20);
  std::vector<int64_t> bytes(20, 1 << 20);
  bytes[7] = 300 << 20;
  const StreamPlan plan = plan_stream(spec, bytes, std::vector<bool>(20, true));
  EXPECT_GE(plan.slot_bytes, 300 << 20);
  EXPECT_LE(plan.slot_bytes, 400 << 20);
}

TEST(StreamPlan, TablesThatAreLookedUpStayOnTheHostAndAreNotCopied) {
  EngineSpec spec = chain(4);
  spec.dispatches[0].looks_up = true;
  spec.dispatches[1].ops = {"aten::embedding"};  // a name, which says nothing of what is read
  const std::vector<int64_t> bytes(4, 1 << 20);
  const std::vector<bool> streamed = choose_streamed(spec, bytes, 3 << 20);
  EXPECT_EQ(streamed, (std::vector<bool>{true, false, false, false}));
  const StreamPlan plan = plan_stream(spec, bytes, streamed);
  EXPECT_EQ(plan.slot_bytes, 0);
  // Where a product reads the table, too, that one's is copied.
  spec.dispatches[3].operands.push_back({0, 0, 0, true, false});
  const StreamPlan tied = plan_stream(spec, bytes, std::vector<bool>{true, false, false, false});
  ASSERT_EQ(tied.segments.size(), 1U);
  EXPECT_EQ(tied.segments[0].copies.size(), 1U);
}

}  // namespace
}  // namespace tv::test
