// Pipelines by their keys: on a device that only counts what is destroyed.

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <new>
#include <set>
#include <stdexcept>
#include <thread>
#include <vector>

#include "runtime/base/error.h"
#include "runtime/vulkan/pipeline_cache.h"

namespace tv {
namespace {

std::mutex destroyed_mutex;
std::vector<uint64_t> destroyed;

VKAPI_ATTR void VKAPI_CALL destroy(VkDevice, VkPipeline pipeline, const VkAllocationCallbacks*) {
  const std::lock_guard lock(destroyed_mutex);
  destroyed.push_back(reinterpret_cast<uint64_t>(pipeline));
}

PipelineKey key(uint64_t number) {
  PipelineKey key{};
  for (size_t i = 0; i < 8; ++i) key[i] = static_cast<uint8_t>(number >> (8 * i));
  return key;
}

class PipelineCacheTest : public testing::Test {
 protected:
  PipelineCacheTest() {
    api_.vkDestroyPipeline = &destroy;
    destroyed.clear();
  }

  OwnedPipeline pipeline(uint64_t number) {
    ++made_;
    return {api_, reinterpret_cast<VkPipeline>(number)};
  }
  /// The pipeline of key(number), whose handle is `number`.
  SharedPipeline get(uint64_t number, WhenUnused when_unused = WhenUnused::kKeep) {
    return cache_.get(key(number), [&] { return pipeline(number); }, when_unused);
  }
  void expect_counts(size_t used, size_t unused) const {
    EXPECT_EQ(cache_.counts().used, used);
    EXPECT_EQ(cache_.counts().unused, unused);
  }

  DeviceApi api_;
  std::atomic<int> made_{0};
  PipelineCache cache_;
};

using Handles = std::vector<uint64_t>;

TEST_F(PipelineCacheTest, OneOfAKeyIsMade) {
  const SharedPipeline first = get(1), again = get(1), other = get(2);
  EXPECT_EQ(first.get(), again.get());
  EXPECT_NE(first.get(), other.get());
  EXPECT_EQ(made_, 2);
  expect_counts(2, 0);
  first.set_warm();
  EXPECT_TRUE(again.warm());
  EXPECT_FALSE(other.warm());
}

TEST_F(PipelineCacheTest, WithoutAUserItStays) {
  SharedPipeline first = get(1), second = get(1);
  first.set_warm();
  first.reset();
  expect_counts(1, 0);
  second = get(2);
  expect_counts(1, 1);
  EXPECT_TRUE(get(1).warm());
  EXPECT_EQ(made_, 2);
  EXPECT_EQ(destroyed, Handles{});
  cache_.clear();
  expect_counts(1, 0);
  EXPECT_EQ(destroyed, Handles{1});
  second.reset();
  cache_.clear();
  EXPECT_EQ(destroyed, (Handles{1, 2}));
}

TEST_F(PipelineCacheTest, ThoseUsedLastStay) {
  constexpr size_t kMost = PipelineCache::kMostUnused;
  const SharedPipeline used = get(1'000'000);
  for (size_t i = 1; i <= kMost; ++i) get(i);
  expect_counts(1, kMost);
  get(1);  // 2 is the oldest then
  get(kMost + 1);
  get(kMost + 2);
  expect_counts(1, kMost);
  EXPECT_EQ(destroyed, (Handles{2, 3}));
  const int before = made_;
  get(1);
  EXPECT_EQ(made_, before);
  get(2);
  EXPECT_EQ(made_, before + 1);
}

TEST_F(PipelineCacheTest, OfManyThatAreGivenBackTheBoundStays) {
  constexpr size_t kMore = PipelineCache::kMostUnused + 7;
  std::vector<SharedPipeline> engine;
  for (size_t i = 1; i <= kMore; ++i) engine.push_back(get(i));
  expect_counts(kMore, 0);
  engine.clear();
  expect_counts(0, PipelineCache::kMostUnused);
  EXPECT_EQ(destroyed, (Handles{1, 2, 3, 4, 5, 6, 7}));
}

TEST_F(PipelineCacheTest, TriedOnesGoUnlessAnEngineUsedThem) {
  get(1, WhenUnused::kDestroy);
  EXPECT_EQ(destroyed, Handles{1});
  SharedPipeline tried = get(2, WhenUnused::kDestroy);
  get(2);
  get(2, WhenUnused::kDestroy);
  tried.reset();
  expect_counts(0, 1);
  EXPECT_EQ(destroyed, Handles{1});
}

TEST_F(PipelineCacheTest, AHandleIsMovedNotCopied) {
  SharedPipeline one = get(1), moved = std::move(one);
  EXPECT_FALSE(one);  // NOLINT(bugprone-use-after-move)
  EXPECT_TRUE(moved);
  SharedPipeline& same = moved;
  moved = std::move(same);
  expect_counts(1, 0);
  moved = get(2);
  expect_counts(1, 1);
  moved.reset();
  moved.reset();
  expect_counts(0, 2);
}

TEST_F(PipelineCacheTest, ThreadsMakeEachOnce) {
  constexpr uint64_t kKeys = 40;
  constexpr int kThreads = 6;
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      std::vector<SharedPipeline> held;
      for (uint64_t i = 0; i < kKeys; ++i) {
        const uint64_t number = 1 + (i * 7 + static_cast<uint64_t>(t % 2) * 3) % kKeys;
        held.push_back(cache_.get(key(number), [&] {
          std::this_thread::sleep_for(std::chrono::milliseconds(1));
          return pipeline(number);
        }));
        wrong += held.back().get() != reinterpret_cast<VkPipeline>(number);
      }
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(made_, static_cast<int>(kKeys));
  expect_counts(0, kKeys);
}

TEST_F(PipelineCacheTest, ThreadsThatTakeAndGiveBackDisturbNobody) {
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (uint64_t i = 0; i < 3000; ++i) {
        const uint64_t number = 1 + i % 5;
        const auto when = (i + static_cast<uint64_t>(t)) % 3 ? WhenUnused::kDestroy  //
                                                             : WhenUnused::kKeep;
        wrong += get(number, when).get() != reinterpret_cast<VkPipeline>(number);
        if (i % 50 == 0) cache_.clear();
      }
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(wrong, 0);
  cache_.clear();
  expect_counts(0, 0);
  EXPECT_EQ(static_cast<int>(destroyed.size()), made_);
}

TEST_F(PipelineCacheTest, WhileOneIsMadeOthersAreNotLocked) {
  const SharedPipeline held = get(2);
  const SharedPipeline made = cache_.get(key(1), [&] {
    std::thread([&] {
      EXPECT_EQ(get(2).get(), held.get());
      get(3);
      cache_.clear();
    }).join();
    return pipeline(1);
  });
  EXPECT_TRUE(made);
  EXPECT_EQ(destroyed, Handles{3});
}

TEST_F(PipelineCacheTest, WhatFailsIsItsCallersAndTheNextTriesAnew) {
  EXPECT_THROW(cache_.get(key(1), []() -> OwnedPipeline { throw std::bad_alloc(); }),
               std::bad_alloc);
  expect_counts(0, 0);
  EXPECT_THROW(cache_.get(key(1), []() -> OwnedPipeline { throw OutOfMemoryError("full"); }),
               OutOfMemoryError);
  EXPECT_TRUE(get(1));
  EXPECT_EQ(made_, 1);
}

TEST_F(PipelineCacheTest, ThoseThatWaitForAFailureTryThemselves) {
  constexpr int kWaiting = 3;
  std::atomic<int> asking{0}, failed{0};
  std::set<uint64_t> seen;
  std::mutex mutex;
  std::vector<std::thread> threads;
  const auto first = [&]() -> OwnedPipeline {
    for (int t = 0; t < kWaiting; ++t) {
      threads.emplace_back([&, t] {
        ++asking;
        try {
          // The first of them fails, too; the others find what the second one made.
          const SharedPipeline got = cache_.get(key(1), [&]() -> OwnedPipeline {
            if (failed++ == 0) throw std::runtime_error("second");
            return pipeline(10 + static_cast<uint64_t>(t));
          });
          const std::lock_guard lock(mutex);
          seen.insert(reinterpret_cast<uint64_t>(got.get()));
        } catch (const std::runtime_error& error) {
          EXPECT_STREQ(error.what(), "second");
        }
      });
    }
    while (asking < kWaiting) std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::milliseconds(20));  // most wait by now
    throw std::runtime_error("first");
  };
  try {
    cache_.get(key(1), first);
    ADD_FAILURE() << "no error";
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "first");
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(failed, 2);
  EXPECT_EQ(made_, 1);
  EXPECT_EQ(seen.size(), 1U);
  expect_counts(0, 1);
}

}  // namespace
}  // namespace tv
