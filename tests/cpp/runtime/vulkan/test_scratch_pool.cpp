// Memory that is lent to calls: who gets which piece, and which pieces stay.

#include <gtest/gtest.h>

#include <array>
#include <thread>

#include "runtime/base/error.h"
#include "runtime/commands/recorder.h"
#include "runtime/vulkan/device_impl.h"

namespace tv {
namespace {

constexpr int64_t kMiB = 1 << 20;

class RuntimeScratch : public testing::Test {
 protected:
  RuntimeScratch() : device_(open_device("")), pool_(*device_, MemoryUse::kArena) {}

  /// Borrows and gives back; the number of the piece.
  static uint64_t use(ScratchUser& user, int64_t bytes, const CallStream& stream) {
    user.borrow(bytes, stream);
    const uint64_t id = user.id();
    EXPECT_GE(user.memory().size_bytes(), bytes);
    user.give_back();
    EXPECT_EQ(user.id(), 0U);
    EXPECT_FALSE(user.memory());
    return id;
  }
  int64_t held() const { return memory_in_use(*device_).arenas; }

  std::shared_ptr<Device> device_;
  const int64_t before_ = memory_in_use(*device_).arenas;
  ScratchPool pool_;
  const std::array<char, 3> names_{};
  const CallStream a_{false, &names_[0]}, b_{false, &names_[1]}, c_{false, &names_[2]};
};

TEST_F(RuntimeScratch, OneLaneHasOnePieceOfTheLargestSize) {
  ScratchUser small(pool_), large(pool_);
  const uint64_t first = use(small, kMiB, a_);
  EXPECT_EQ(held() - before_, kMiB);
  const uint64_t grown = use(large, 10 * kMiB, a_);
  EXPECT_NE(grown, first);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(use(small, kMiB, a_), grown) << "what was recorded stays right";
    EXPECT_EQ(use(large, 10 * kMiB, a_), grown);
  }
  EXPECT_EQ(held() - before_, 10 * kMiB) << "the smaller one went";
  EXPECT_EQ(pool_.last_of(a_), grown);
  EXPECT_EQ(pool_.last_of(b_), 0U);
}

TEST_F(RuntimeScratch, WhatIsLentIsLentOnce) {
  ScratchUser one(pool_), two(pool_);
  one.borrow(kMiB, a_);
  two.borrow(kMiB, b_);
  EXPECT_NE(one.id(), two.id());
  EXPECT_NE(one.memory().address(), two.memory().address());
  one.give_back();
  two.give_back();
  EXPECT_EQ(pool_.pieces(), 2U);
  const uint64_t of_one = one.last_id(), of_two = two.last_id();
  EXPECT_EQ(use(two, kMiB, b_), of_two);
  EXPECT_EQ(use(one, kMiB, a_), of_one) << "each has its own again";
}

TEST_F(RuntimeScratch, AnotherLanesPieceIsTakenUnlessItIsFarTooLarge) {
  ScratchUser large(pool_), alike(pool_), small(pool_);
  const uint64_t id = use(large, 100 * kMiB, a_);
  EXPECT_EQ(use(alike, 90 * kMiB, b_), id);
  EXPECT_NE(use(small, kMiB, c_), id) << "it would be in the way of the large ones";
  EXPECT_EQ(held() - before_, 101 * kMiB);
  EXPECT_EQ(use(small, kMiB, b_), small.last_id());
}

TEST_F(RuntimeScratch, ALargerPieceTakesAFreeOnesPlace) {
  ScratchUser one(pool_), two(pool_), three(pool_);
  use(one, 2 * kMiB, a_);
  use(two, 3 * kMiB, b_);
  EXPECT_EQ(pool_.pieces(), 1U) << "another stream's, which nobody used";
  one.borrow(2 * kMiB, a_);
  use(two, 4 * kMiB, b_);
  EXPECT_EQ(pool_.pieces(), 2U) << "what is lent stays";
  use(three, 5 * kMiB, c_);
  EXPECT_EQ(pool_.pieces(), 2U);
  one.give_back();
  EXPECT_EQ(held() - before_, 8 * kMiB);
}

TEST_F(RuntimeScratch, MemoryFallsWithItsUsers) {
  ScratchUser stays(pool_);
  use(stays, kMiB, a_);
  {
    ScratchUser large(pool_), other(pool_);
    use(large, 10 * kMiB, a_);
    other.borrow(3 * kMiB, a_);
    stays.borrow(kMiB, b_);
    stays.give_back();
    EXPECT_GE(held() - before_, 11 * kMiB);
  }
  EXPECT_LE(held() - before_, kMiB);
  use(stays, kMiB, a_);
  EXPECT_EQ(held() - before_, kMiB);
}

TEST_F(RuntimeScratch, WhatIsLentGoesWhenItComesBack) {
  ScratchUser stays(pool_);
  {
    ScratchUser large(pool_);
    use(large, 10 * kMiB, a_);
    stays.borrow(kMiB, a_);
  }
  EXPECT_EQ(held() - before_, 10 * kMiB);
  stays.give_back();
  EXPECT_EQ(held() - before_, 0);
  use(stays, kMiB, a_);
  EXPECT_EQ(held() - before_, kMiB);
}

TEST_F(RuntimeScratch, NobodySeesWhatIsLeftInAnOwnPiece) {
  ScratchUser owner(pool_, /*own=*/true), other(pool_);
  const uint64_t own = use(owner, kMiB, a_);
  const uint64_t shared = use(other, kMiB, a_);
  EXPECT_NE(own, shared);
  EXPECT_EQ(use(owner, kMiB, a_), own);
  {
    ScratchUser second(pool_, /*own=*/true);
    const uint64_t its = use(second, kMiB, a_);
    EXPECT_NE(its, own);
    EXPECT_NE(its, shared);
    EXPECT_EQ(pool_.pieces(), 3U);
  }
  EXPECT_EQ(pool_.pieces(), 2U);
}

TEST_F(RuntimeScratch, IdlePiecesAreFreed) {
  ScratchUser idle(pool_), busy(pool_);
  busy.borrow(kMiB, a_);
  use(idle, 2 * kMiB, b_);
  EXPECT_TRUE(pool_.free_idle());
  EXPECT_EQ(held() - before_, kMiB);
  EXPECT_FALSE(pool_.free_idle());
  busy.give_back();
  use(idle, 2 * kMiB, b_);
  EXPECT_GE(held() - before_, 2 * kMiB);
}

TEST_F(RuntimeScratch, WhatIsTooLargeLeavesThePoolInOrder) {
  ScratchUser user(pool_);
  const uint64_t first = use(user, kMiB, a_);
  EXPECT_THROW(user.borrow(int64_t{1} << 50, a_), OutOfMemoryError);
  EXPECT_EQ(user.id(), 0U);
  const uint64_t next = use(user, kMiB, a_);
  EXPECT_NE(next, first) << "it was freed for the larger one";
  EXPECT_EQ(use(user, kMiB, a_), next);
}

TEST_F(RuntimeScratch, ARunningStreamLendsToItsNextCallOnly) {
  // Work that starts when `gate` says so, as behind a CUDA stream.
  const OwnedSemaphore gate = device_->make_timeline();
  const OwnedCommandPool commands_of = device_->make_command_pool();
  const auto commands = allocate_commands(*device_, commands_of.get());
  begin_commands(*device_, commands, /*resubmit=*/true);
  end_commands(*device_, commands);
  const CallStream stream{true, &names_[0]}, other_stream{true, &names_[1]};
  ScratchUser one(pool_), two(pool_), three(pool_), four(pool_);
  one.borrow(kMiB, stream);
  // Whatever comes between, the gate opens: otherwise the process would hang.
  const uint64_t submission = device_->submit(commands, {gate.get(), 1});
  one.give_back();
  EXPECT_EQ(use(two, kMiB, stream), one.last_id()) << "ordered by barriers";
  EXPECT_NE(use(three, kMiB, other_stream), one.last_id());
  EXPECT_NE(use(four, kMiB, a_), one.last_id()) << "the host does not wait";
  VkSemaphoreSignalInfo open{};
  open.sType = VK_STRUCTURE_TYPE_SEMAPHORE_SIGNAL_INFO;
  open.semaphore = gate.get();
  open.value = 1;
  const auto signal = reinterpret_cast<PFN_vkSignalSemaphore>(
      Instance::get().api().vkGetDeviceProcAddr(device_->api().device, "vkSignalSemaphore"));
  ASSERT_EQ(signal(device_->api().device, &open), VK_SUCCESS);
  device_->wait(submission);
  ScratchUser five(pool_);
  use(five, kMiB, b_);
  EXPECT_LE(pool_.pieces(), 3U) << "all are free now";
}

TEST_F(RuntimeScratch, ManyThreadsHaveNoMoreThanAPieceEach) {
  constexpr int kThreads = 8, kUsers = 5;
  std::vector<std::unique_ptr<ScratchUser>> users;
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads * kUsers; ++i) users.push_back(std::make_unique<ScratchUser>(pool_));
  std::atomic<int> wrong{0};
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 400; ++i) {
        ScratchUser& user = *users[static_cast<size_t>(t * kUsers + i % kUsers)];
        user.borrow((1 + (t + i) % 7) * 4096, thread_stream());
        if (auto* words = static_cast<int*>(user.memory().host())) {
          words[i % 1024] = t;
          std::this_thread::yield();
          wrong += words[i % 1024] != t;
        }
        user.give_back();
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_LE(pool_.pieces(), static_cast<size_t>(kThreads));
  users.clear();
  EXPECT_EQ(held(), before_);
}

}  // namespace
}  // namespace tv
