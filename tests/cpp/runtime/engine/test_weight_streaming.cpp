// Weights that are copied to the device as kernels need them: results are those without, whatever
// is kept, changed, called at once or out of memory.

#include <atomic>
#include <cstring>
#include <optional>
#include <thread>

#include "runtime/engine/weight_set.h"
#include "runtime/vulkan/device_impl.h"
#include "tests/cpp/kit/runtime_fixture.h"

namespace tv::test {
namespace {

constexpr size_t kLayers = 24, kFloats = 1000;
constexpr int64_t kHuge = int64_t{1} << 40;

/// t = t · 0.5 + w, layer by layer; the weight of every second layer is packed: 3 w.
EngineSpec layers() {
  SpecBuilder b(static_cast<int64_t>(kFloats));
  uint32_t t = b.input("x");
  for (size_t k = 0; k < kLayers; ++k) {
    const std::string number = std::to_string(k);
    uint32_t w = b.weight("w" + number);
    if (k % 2 == 1) {
      const uint32_t packed = b.persistent("packed" + number);
      b.spec.weight_program.push_back(b.mul_add("pack" + number, packed, w, w, 2));
      w = packed;
    }
    const uint32_t next = k + 1 < kLayers ? b.arena("t" + number) : b.output("y");
    b.step("layer" + number, next, t, w, 0.5F);
    t = next;
  }
  return b.spec;
}

/// Weights that the caller keeps where they are.
struct Weights {
  std::vector<std::vector<float>> values;
  explicit Weights(float start = 0) {
    for (size_t k = 0; k < kLayers; ++k)
      values.push_back(ramp(kFloats, start + 0.37F * static_cast<float>(k)));
  }
  std::vector<HostTensor> hosts() {
    std::vector<HostTensor> tensors;
    for (auto& v : values) tensors.push_back(host(v));
    return tensors;
  }
};

std::vector<float> result(Engine& engine, const WeightSet& set, float start, uint32_t times = 1) {
  auto xs = ramp(kFloats, start);
  std::vector<float> ys(kFloats);
  const HostTensor inputs[] = {host(xs)}, outputs[] = {host(ys)};
  engine.run(set, {}, inputs, outputs, times);
  return ys;
}

/// What the host computes: sums of few bits, so without rounding that depends on the order.
std::vector<float> expected(const Weights& weights, float start) {
  std::vector<float> t = ramp(kFloats, start);
  for (size_t k = 0; k < kLayers; ++k) {
    for (size_t i = 0; i < kFloats; ++i) {
      const float w = weights.values[k][i];
      t[i] = t[i] * 0.5F + (k % 2 == 1 ? w * 2 + w : w);
    }
  }
  return t;
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

class WeightStreaming : public ::testing::Test {
 protected:
  std::shared_ptr<Engine> engine(int64_t budget, bool check_addresses = false) {
    return Engine::create(device_, layers(),
                          {.check_addresses = check_addresses, .weight_budget = budget});
  }
  /// Bytes of what launches read, as they are placed.
  static constexpr int64_t all() { return static_cast<int64_t>(kLayers) * 4096; }
  void TearDown() override {
    const ValidationLog log = validation_log();
    EXPECT_EQ(log.messages, std::vector<std::string>());
  }
  std::shared_ptr<Device> device_ = open_device("");
  Weights weights_;
};

TEST_F(WeightStreaming, AnyBudgetGivesTheSameBits) {
  const auto whole = engine(kNoWeightStreaming);
  const auto set = whole->prepare_weights(weights_.hosts());
  const std::vector<float> want = result(*whole, *set, 5), other = result(*whole, *set, -8);
  EXPECT_EQ(whole->weight_memory(*set).host, 0);
  for (const int64_t budget : {int64_t{0}, int64_t{5000}, all() / 2, all() - 1, all(), kHuge}) {
    SCOPED_TRACE(budget);
    const auto streamed = engine(budget);
    const auto streamed_set = streamed->prepare_weights(weights_.hosts());
    const WeightMemory memory = streamed->weight_memory(*streamed_set);
    EXPECT_LE(memory.device, budget);
    EXPECT_EQ(memory.host > 0, budget < all());
    EXPECT_EQ(memory.slots > 0, budget < all());
    if (budget == 0) {
      EXPECT_EQ(memory.host, all());
      EXPECT_LT(memory.slots, all() / 2);
    }
    for (int call = 0; call < 3; ++call) {
      EXPECT_TRUE(same_bits(result(*streamed, *streamed_set, 5), want));
      EXPECT_TRUE(same_bits(result(*streamed, *streamed_set, -8), other));
    }
    EXPECT_EQ(impl(streamed).faults_of_last_recording(), std::vector<std::string>());
  }
}

TEST_F(WeightStreaming, SeveralTurnsAndSubmissionsInParts) {
  const auto streamed = engine(all() / 3);
  const auto set = streamed->prepare_weights(weights_.hosts());
  const std::vector<float> want = expected(weights_, 7);
  EXPECT_TRUE(same_bits(result(*streamed, *set, 7, 3), want));
  DebugModes modes = debug_modes();
  modes.submit_us = 1;
  const ScopedModes scoped(modes);
  EXPECT_TRUE(same_bits(result(*streamed, *set, 7, 2), want));
  EXPECT_GE(impl(streamed).submissions_of_last_recording(), 2 * kLayers);
}

TEST_F(WeightStreaming, AChangeOfWeights) {
  const auto streamed = engine(all() / 2);
  const auto first = streamed->prepare_weights(weights_.hosts());
  const std::vector<float> before = expected(weights_, 1);
  Weights after = weights_;
  auto set = first;
  for (const uint32_t k : {0U, 3U, 10U, 23U}) {
    after.values[k] = ramp(kFloats, 50 + static_cast<float>(k));
    const uint32_t changed[] = {k};
    set = streamed->update_weights(*set, after.hosts(), changed);
    EXPECT_LE(streamed->weight_memory(*set).device, 2 * all());
  }
  EXPECT_TRUE(same_bits(result(*streamed, *set, 1), expected(after, 1)));
  EXPECT_TRUE(same_bits(result(*streamed, *first, 1), before)) << "the older set stands";
  EXPECT_TRUE(same_bits(result(*streamed, *set, 1), expected(after, 1)));
}

TEST_F(WeightStreaming, CallsOfManyThreads) {
  const auto streamed = engine(4096), partly = engine(all() / 2);
  Weights other(300);
  const auto one = streamed->prepare_weights(weights_.hosts());
  const auto two = streamed->prepare_weights(other.hosts());
  const auto three = partly->prepare_weights(other.hosts());
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 6; ++t) {
    threads.emplace_back([&, t] {
      const float start = static_cast<float>(t);
      const std::vector<float> want = expected(t % 3 == 0 ? weights_ : other, start);
      for (int call = 0; call < 15; ++call) {
        const std::vector<float> got = t % 3 == 0   ? result(*streamed, *one, start)
                                       : t % 3 == 1 ? result(*streamed, *two, start)
                                                    : result(*partly, *three, start);
        wrong += same_bits(got, want) ? 0 : 1;
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST_F(WeightStreaming, TooLittleMemoryForAllStreamsWhatIsTooMuch) {
  const std::vector<float> want = expected(weights_, 2);
  DebugModes modes = debug_modes();
  release_memory(*device_);
  // Room for activations and slots, and for a third of what is packed.
  modes.device_bytes = memory_in_use(*device_).all() + all() / 6 + 64 * 1024;
  const ScopedModes scoped(modes);
  for (const int64_t budget : {kHuge, kAutoWeightBudget}) {
    SCOPED_TRACE(budget);
    Weights many = weights_;
    const auto streamed = engine(budget);
    std::optional<Allocation> taken;  // so that not all is left that the device has told
    taken.emplace(*device_, 48 * 1024, MemoryUse::kDevice);
    const auto set = streamed->prepare_weights(weights_.hosts());
    taken.reset();
    EXPECT_GT(streamed->weight_memory(*set).host, 0);
    EXPECT_TRUE(same_bits(result(*streamed, *set, 2), want));
  }
  Allocation taken(*device_, 64 * 1024, MemoryUse::kDevice);
  const auto whole = engine(kNoWeightStreaming);
  EXPECT_THROW(whole->prepare_weights(weights_.hosts()), OutOfMemoryError);
}

TEST_F(WeightStreaming, AChangeThatTheDeviceHasNoMemoryForIsStreamed) {
  const auto streamed = engine(kHuge);
  const auto first = streamed->prepare_weights(weights_.hosts());
  EXPECT_EQ(streamed->weight_memory(*first).host, 0);
  Weights after(90);
  std::vector<uint32_t> changed(kLayers);
  for (uint32_t k = 0; k < kLayers; ++k) changed[k] = k;
  result(*streamed, *first, 4);
  DebugModes modes = debug_modes();
  modes.device_bytes = memory_in_use(*device_).all() + 16 * 1024;
  const ScopedModes scoped(modes);
  const auto second = streamed->update_weights(*first, after.hosts(), changed);
  EXPECT_GT(streamed->weight_memory(*second).host, 0);
  modes.device_bytes = -1;
  const ScopedModes again(modes);
  EXPECT_TRUE(same_bits(result(*streamed, *second, 4), expected(after, 4)));
  EXPECT_TRUE(same_bits(result(*streamed, *first, 4), expected(weights_, 4)));
}

TEST_F(WeightStreaming, ADeviceWhoseMemoryIsTheHostsStreamsOnlyWhenAsked) {
  if (has_own_memory(*device_)) GTEST_SKIP() << "it has its own";
  const auto automatic = engine(kAutoWeightBudget);
  EXPECT_EQ(automatic->weight_memory(*automatic->prepare_weights(weights_.hosts())).host, 0);
}

TEST_F(WeightStreaming, Profiles) {
  const auto streamed = engine(0);
  const auto set = streamed->prepare_weights(weights_.hosts());
  auto xs = ramp(kFloats, 3);
  std::vector<float> ys(kFloats);
  const HostTensor inputs[] = {host(xs)}, outputs[] = {host(ys)};
  const auto times = streamed->time_dispatches(*set, {}, inputs, outputs, 2);
  ASSERT_EQ(times.size(), kLayers);
  for (const DispatchTime& time : times) EXPECT_GT(time.time_us, 0);
  EXPECT_TRUE(same_bits(ys, expected(weights_, 3)));
}

TEST_F(WeightStreaming, KernelsThatAreNotTrusted) {
  const auto guarded = engine(all() / 4, /*check_addresses=*/true);
  const auto set = guarded->prepare_weights(weights_.hosts());
  EXPECT_TRUE(same_bits(result(*guarded, *set, 3), expected(weights_, 3)));
}

TEST_F(WeightStreaming, SlotsAreSharedAndReleased) {
  const auto one = engine(0), two = engine(0);
  const auto first = one->prepare_weights(weights_.hosts());
  const auto second = two->prepare_weights(weights_.hosts());
  release_memory(*device_);
  ASSERT_EQ(memory_in_use(*device_).slots, 0);
  const std::vector<float> want = expected(weights_, 6);
  EXPECT_TRUE(same_bits(result(*one, *first, 6), want));
  EXPECT_TRUE(same_bits(result(*two, *second, 6), want));
  EXPECT_EQ(memory_in_use(*device_).slots, one->weight_memory(*first).slots);
  EXPECT_GE(memory_in_use(*device_).host_weights, 2 * all());
  release_memory(*device_);
  EXPECT_EQ(memory_in_use(*device_).slots, 0);
  EXPECT_TRUE(same_bits(result(*one, *first, 6), want));
}

TEST_F(WeightStreaming, NoOtherNumberIsABudget) {
  const std::string said = error_of(ErrorKind::kUser, [&] { engine(-3); });
  EXPECT_NE(said.find("weight_budget"), std::string::npos) << said;
}

}  // namespace
}  // namespace tv::test
