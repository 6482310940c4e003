#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "runtime/engine/memory_plan.h"

namespace tv {
namespace {

void expect_valid(const std::vector<BufferLifetime>& buffers, const MemoryPlan& plan,
                  int64_t alignment) {
  ASSERT_EQ(plan.offsets.size(), buffers.size());
  EXPECT_EQ(plan.total_bytes % alignment, 0);
  for (size_t i = 0; i < buffers.size(); ++i) {
    EXPECT_EQ(plan.offsets[i] % alignment, 0);
    EXPECT_GE(plan.offsets[i], 0);
    EXPECT_LE(plan.offsets[i] + buffers[i].size_bytes, plan.total_bytes);
    for (size_t j = 0; j < i; ++j) {
      const bool live_together =
          buffers[i].first <= buffers[j].last && buffers[j].first <= buffers[i].last;
      const bool share = plan.offsets[i] < plan.offsets[j] + buffers[j].size_bytes &&
                         plan.offsets[j] < plan.offsets[i] + buffers[i].size_bytes;
      EXPECT_FALSE(live_together && share) << "buffers " << i << " and " << j;
    }
  }
}

/// No plan can be smaller than the most bytes that live at one time.
int64_t peak_bytes(const std::vector<BufferLifetime>& buffers, int64_t alignment) {
  int64_t peak = 0;
  for (const BufferLifetime& at : buffers) {
    int64_t sum = 0;
    for (const BufferLifetime& b : buffers) {
      if (b.first <= at.first && at.first <= b.last) {
        sum += (b.size_bytes + alignment - 1) / alignment * alignment;
      }
    }
    peak = std::max(peak, sum);
  }
  return peak;
}

TEST(MemoryPlan, Empty) {
  const MemoryPlan plan = plan_memory({});
  EXPECT_TRUE(plan.offsets.empty());
  EXPECT_EQ(plan.total_bytes, 0);
}

TEST(MemoryPlan, ChainNeedsTwoBuffers) {
  std::vector<BufferLifetime> buffers;
  for (int32_t i = 0; i < 10; ++i) buffers.push_back({1000, i, i + 1});
  const MemoryPlan plan = plan_memory(buffers);
  expect_valid(buffers, plan, 256);
  EXPECT_EQ(plan.total_bytes, 2 * 1024);
}

TEST(MemoryPlan, SmallBuffersFillGapsOfLargeOnes) {
  // The residual lives across two large buffers that do not live together.
  const std::vector<BufferLifetime> buffers = {
      {4096, 0, 1}, {512, 0, 3}, {4096, 2, 3}, {256, 2, 2}};
  const MemoryPlan plan = plan_memory(buffers);
  expect_valid(buffers, plan, 256);
  EXPECT_EQ(plan.total_bytes, 4096 + 512 + 256);
}

TEST(MemoryPlan, EmptyBuffersTakeNoRoom) {
  const std::vector<BufferLifetime> buffers = {{0, 0, 5}, {100, 0, 5}, {0, 2, 3}};
  const MemoryPlan plan = plan_memory(buffers);
  expect_valid(buffers, plan, 256);
  EXPECT_EQ(plan.total_bytes, 256);
}

TEST(MemoryPlan, RandomCasesNeverOverlapAndStayNearThePeak) {
  std::mt19937 random(7);
  double worst = 0;
  for (int round = 0; round < 200; ++round) {
    const int64_t alignment = round % 2 ? 256 : 64;
    std::vector<BufferLifetime> buffers(1 + random() % 60);
    for (BufferLifetime& b : buffers) {
      b.size_bytes = static_cast<int64_t>(random() % (random() % 3 ? 2000 : 100000));
      b.first = static_cast<int32_t>(random() % 80);
      b.last = b.first + static_cast<int32_t>(random() % 6);
    }
    const MemoryPlan plan = plan_memory(buffers, alignment);
    expect_valid(buffers, plan, alignment);
    const int64_t peak = peak_bytes(buffers, alignment);
    ASSERT_GE(plan.total_bytes, peak);
    if (peak > 0) worst = std::max(worst, double(plan.total_bytes) / double(peak));
  }
  EXPECT_LT(worst, 1.5);
}

TEST(MemoryPlan, SameInputSamePlan) {
  const std::vector<BufferLifetime> buffers = {{300, 0, 2}, {300, 1, 3}, {300, 2, 4}, {300, 3, 5}};
  EXPECT_EQ(plan_memory(buffers).offsets, plan_memory(buffers).offsets);
}

}  // namespace
}  // namespace tv
