// Engines of one device share the memory that calls need while they run.

#include <atomic>
#include <thread>

#include "runtime/engine/timed_calls.h"
#include "runtime/vulkan/device_impl.h"
#include "runtime/vulkan/device_memory.h"
#include "tests/cpp/kit/runtime_fixture.h"

namespace tv {
namespace {

using namespace test;  // NOLINT

/// y = (x * factor + x) * factor + x through an arena of n floats.
EngineSpec chain(float factor, int64_t most) {
  SpecBuilder b(Expr::symbol(0));
  b.spec.symbols = {{"n", 1, 8, most}};
  const uint32_t x = b.input("x"), t = b.arena("t"), y = b.output("y");
  b.step("first", t, x, x, factor).step("second", y, t, x, factor);
  return b.spec;
}

struct Loaded {
  Loaded(const std::shared_ptr<Device>& device, float by, int64_t most = 1 << 20)
      : factor(by),
        engine(Engine::create(device, chain(by, most))),
        weights(engine->prepare_weights({})) {}

  /// Wrong elements of a call; `xs` and `ys` are kept, so that nothing is recorded anew for them.
  int64_t run(std::vector<float>& xs, std::vector<float>& ys) const {
    const HostTensor inputs[] = {host(xs)}, outputs[] = {host(ys)};
    const int64_t symbols[] = {static_cast<int64_t>(xs.size())};
    engine->run(*weights, symbols, inputs, outputs);
    int64_t wrong = 0;
    for (size_t i = 0; i < xs.size(); ++i) {
      wrong += ys[i] != (xs[i] * factor + xs[i]) * factor + xs[i];
    }
    return wrong;
  }
  int64_t arena(int64_t n) const {
    const int64_t symbols[] = {n};
    return engine->arena_bytes(symbols);
  }

  float factor;
  std::shared_ptr<Engine> engine;
  std::shared_ptr<const WeightSet> weights;
};

class RuntimeMemoryShared : public testing::Test {
 protected:
  DeviceMemory used() const {
    DeviceMemory now = memory_in_use(*device_);
    now.arenas -= before_.arenas;
    now.staging -= before_.staging;
    return now;
  }
  /// What a call of n floats in and out takes: its arena, with the copies that a staged device has.
  int64_t bytes_of(const Loaded& engine, int64_t n) const {
    const int64_t copies = device_->host_pointers() ? 0 : 2 * ((4 * n + 255) / 256 * 256);
    return engine.arena(n) + copies;
  }

  std::shared_ptr<Device> device_ = open_device("");
  DeviceMemory before_ = memory_in_use(*device_);
};

TEST_F(RuntimeMemoryShared, ManyEnginesTakeOneArena) {
  constexpr int64_t kSize = 50000;
  std::vector<Loaded> engines;
  for (int i = 0; i < 6; ++i) engines.emplace_back(device_, static_cast<float>(1 + i % 3));
  auto xs = ramp(kSize);
  std::vector<float> ys(kSize);
  for (const Loaded& engine : engines) EXPECT_EQ(engine.run(xs, ys), 0);
  const DeviceMemory once = used();
  EXPECT_EQ(once.arenas, bytes_of(engines[0], kSize));
  EXPECT_LE(once.staging, device_->host_pointers() ? 0 : 2 * (4 * kSize + 256));
  for (int round = 0; round < 3; ++round) {
    for (const Loaded& engine : engines) EXPECT_EQ(engine.run(xs, ys), 0);
  }
  for (const Loaded& engine : engines) {
    EXPECT_EQ(engine.engine->stats().recordings, 1U) << "another engine's call changes nothing";
  }
  EXPECT_EQ(used().arenas, once.arenas);
  engines.clear();
  EXPECT_EQ(used().arenas, 0);
  EXPECT_EQ(used().staging, 0);
}

TEST_F(RuntimeMemoryShared, TheLargestArenaServesAll) {
  const Loaded small(device_, 2), large(device_, 3);
  auto few = ramp(1000), many = ramp(300000);
  std::vector<float> few_out(1000), many_out(300000);
  for (int round = 0; round < 4; ++round) {
    EXPECT_EQ(small.run(few, few_out), 0);
    EXPECT_EQ(large.run(many, many_out), 0);
  }
  EXPECT_EQ(used().arenas, bytes_of(large, 300000));
  EXPECT_EQ(small.engine->stats().recordings, 2U) << "once more when the arena had grown";
  EXPECT_EQ(large.engine->stats().recordings, 1U);
}

TEST_F(RuntimeMemoryShared, MemoryFallsWhenAnEngineGoes) {
  const Loaded small(device_, 2);
  auto few = ramp(1000), many = ramp(300000);
  std::vector<float> few_out(1000), many_out(300000);
  EXPECT_EQ(small.run(few, few_out), 0);
  {
    const Loaded large(device_, 3);
    EXPECT_EQ(large.run(many, many_out), 0);
    EXPECT_EQ(small.run(few, few_out), 0);
    EXPECT_EQ(used().arenas, bytes_of(large, 300000));
  }
  EXPECT_EQ(used().arenas, 0) << "it was larger than what is left needs";
  EXPECT_EQ(small.run(few, few_out), 0);
  EXPECT_EQ(used().arenas, bytes_of(small, 1000));
  release_memory(*device_);
  EXPECT_EQ(used().arenas, 0);
  EXPECT_EQ(small.run(few, few_out), 0);
}

TEST_F(RuntimeMemoryShared, CallsAtOneTimeHaveAnArenaEach) {
  constexpr int64_t kSize = 200000;
  const Loaded one(device_, 2), two(device_, 3);
  std::atomic<int> ready{0};
  std::atomic<int64_t> wrong{0};
  std::vector<std::thread> threads;
  for (const Loaded* engine : {&one, &two}) {
    threads.emplace_back([&, engine] {
      auto xs = ramp(kSize);
      std::vector<float> ys(kSize);
      ++ready;
      while (ready < 2) std::this_thread::yield();
      for (int i = 0; i < 40; ++i) wrong += engine->run(xs, ys);
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_GE(used().arenas, bytes_of(one, kSize));
  EXPECT_LE(used().arenas, 2 * bytes_of(one, kSize));
}

TEST_F(RuntimeMemoryShared, ThreadsWithMixedShapesDoNotDisturbEachOther) {
  constexpr int kThreads = 8;
  constexpr int64_t kMost = 40000;
  std::vector<Loaded> engines;
  for (int i = 0; i < 4; ++i) engines.emplace_back(device_, static_cast<float>(1 + i % 3));
  std::atomic<int64_t> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 80; ++i) {
        const int64_t size = 1 + (t * 131 + i * 977) % kMost;
        auto xs = ramp(static_cast<size_t>(size), static_cast<float>(t));
        std::vector<float> ys(xs.size());
        wrong += engines[static_cast<size_t>(t + i) % engines.size()].run(xs, ys);
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_LE(used().arenas, kThreads * bytes_of(engines[0], kMost));
  engines.clear();
  EXPECT_EQ(used().arenas, 0);
}

TEST_F(RuntimeMemoryShared, PoisonedArenasOfOthersDoNotMatter) {
  const ScopedModes poison({.poison_arena = true});
  const Loaded one(device_, 2), two(device_, 3);
  auto xs = ramp(5000);
  std::vector<float> ys(5000);
  for (int round = 0; round < 3; ++round) {
    EXPECT_EQ(one.run(xs, ys), 0);
    EXPECT_EQ(two.run(xs, ys), 0);
  }
}

TEST_F(RuntimeMemoryShared, TimedCallsAndProfilesShareToo) {
  const Loaded loaded(device_, 2);
  TimedCalls timed(loaded.engine);
  auto xs = ramp(50000);
  std::vector<float> ys(50000);
  const HostTensor inputs[] = {host(xs)}, outputs[] = {host(ys)};
  const int64_t symbols[] = {50000};
  EXPECT_EQ(loaded.run(xs, ys), 0);
  timed.run(*loaded.weights, symbols, inputs, outputs);
  if (device_->physical().timestamp_period_ns > 0) {
    loaded.engine->time_dispatches(*loaded.weights, symbols, inputs, outputs, 1);
  }
  EXPECT_EQ(used().arenas, bytes_of(loaded, 50000));
  EXPECT_EQ(loaded.run(xs, ys), 0);
  EXPECT_EQ(loaded.engine->stats().recordings, 1U);
}

TEST_F(RuntimeMemoryShared, ThePeakIsCounted) {
  const Loaded loaded(device_, 2);
  reset_peak_memory(*device_);
  const int64_t start = memory_in_use(*device_).all();
  EXPECT_EQ(memory_in_use(*device_).peak, start);
  auto xs = ramp(50000);
  std::vector<float> ys(50000);
  EXPECT_EQ(loaded.run(xs, ys), 0);
  EXPECT_GE(memory_in_use(*device_).peak, start + bytes_of(loaded, 50000));
  release_memory(*device_);
  EXPECT_GE(memory_in_use(*device_).peak, start + bytes_of(loaded, 50000));
  reset_peak_memory(*device_);
  EXPECT_EQ(memory_in_use(*device_).peak, memory_in_use(*device_).all());
}

/// y = x * 1 + p, where p = w * 2 + w comes from the weight program.
TEST_F(RuntimeMemoryShared, ThePackedFormOfAWeightIsAllThatIsKept) {
  constexpr int64_t kSize = 100003;
  SpecBuilder b(kSize);
  const uint32_t x = b.input("x"), w = b.weight("w"), p = b.persistent("p"), y = b.output("y");
  b.step("add", y, x, p, 1);
  b.spec.weight_program = {b.mul_add("pack", p, w, w, 2)};
  const auto engine = Engine::create(device_, b.spec);
  std::vector<float> ws(kSize, 5);
  const HostTensor weights[] = {host(ws)};
  const int64_t packed = (4 * kSize + 255) / 256 * 256;
  auto set = engine->prepare_weights(weights);
  EXPECT_EQ(memory_in_use(*device_).weights - before_.weights, packed);
  EXPECT_EQ(used().staging, 0) << "neither is what it was uploaded through";
  std::fill(ws.begin(), ws.end(), 7.0F);
  const uint32_t changed[] = {0};
  for (int i = 0; i < 3; ++i) set = engine->update_weights(*set, weights, changed);
  EXPECT_EQ(memory_in_use(*device_).weights - before_.weights, packed);
  auto xs = ramp(kSize);
  std::vector<float> ys(kSize);
  const HostTensor inputs[] = {host(xs)}, outputs[] = {host(ys)};
  engine->run(*set, {}, inputs, outputs);
  EXPECT_EQ(ys[3], xs[3] + 21);
  set.reset();
  EXPECT_EQ(memory_in_use(*device_).weights, before_.weights);
}

}  // namespace
}  // namespace tv
