#include <thread>

#include "runtime/engine/timed_calls.h"
#include "runtime/vulkan/device_impl.h"
#include "runtime/vulkan/instance.h"
#include "tests/cpp/kit/runtime_fixture.h"

namespace tv {
namespace {

using namespace tv::test;

/// y = 10 x for n up to 1000.
EngineSpec tenfold() {
  SpecBuilder b(Expr::symbol(0));
  b.spec.symbols = {{"n", 1, 8, 1000}};
  const uint32_t x = b.input("x"), y = b.output("y"), between = b.arena("between");
  b.step("first", between, x, x, 4).step("second", y, between, between, 1);
  return b.spec;
}

void expect_tenfold(TimedCalls& calls, const WeightSet& weights, size_t n) {
  std::vector<float> xs = ramp(n), ys(n);
  const int64_t symbols[] = {static_cast<int64_t>(n)};
  const HostTensor inputs[] = {host(xs)}, outputs[] = {host(ys)};
  const CallTimes times = calls.run(weights, symbols, inputs, outputs);
  for (size_t i = 0; i < n; ++i) ASSERT_EQ(ys[i], 10 * xs[i]) << i;
  EXPECT_GT(times.compute_us, 0);
  EXPECT_GT(times.queue_us, 0);
  EXPECT_GE(times.host_us, times.queue_us);
  EXPECT_GE(times.upload_us, 0);
  EXPECT_GE(times.download_us, 0);
  EXPECT_EQ(times.device_us(), times.upload_us + times.compute_us + times.download_us);
}

TEST(TimedCalls, TakeTheTimeOfRightResults) {
  const auto engine = Engine::create(open_device(""), tenfold());
  const auto set = engine->prepare_weights({});
  TimedCalls calls(engine);
  EXPECT_EQ(calls.device_clock(), !profile(*engine->device()).is_cpu());
  for (const size_t n : {8, 8, 999, 3, 8}) expect_tenfold(calls, *set, n);
}

TEST(TimedCalls, RunBesideEachOther) {
  const auto engine = Engine::create(open_device(""), tenfold());
  const auto set = engine->prepare_weights({});
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&] {
      TimedCalls calls(engine);
      for (size_t n = 1; n < 60; n += 7) expect_tenfold(calls, *set, n);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

/// The same as `expect_tenfold`, on memory in pieces of these lengths, each elsewhere.
void expect_tenfold_in_pieces(TimedCalls& calls, const WeightSet& weights,
                              const std::vector<size_t>& lengths) {
  std::vector<std::vector<float>> xs, ys;
  size_t n = 0;
  for (const size_t length : lengths) {
    xs.push_back(ramp(length, static_cast<float>(n)));
    ys.emplace_back(length);
    n += length;
  }
  std::vector<HostPieces> inputs(1), outputs(1);
  for (size_t i = 0; i < lengths.size(); ++i) {
    inputs[0].push_back(host(xs[i]));
    outputs[0].push_back(host(ys[i]));
  }
  const int64_t symbols[] = {static_cast<int64_t>(n)};
  const CallTimes times = calls.run_pieces(weights, symbols, inputs, outputs);
  for (size_t i = 0; i < lengths.size(); ++i) {
    for (size_t k = 0; k < lengths[i]; ++k) ASSERT_EQ(ys[i][k], 10 * xs[i][k]) << i << ", " << k;
  }
  EXPECT_GE(times.done_us, times.queue_us);
  EXPECT_GE(times.host_us, times.done_us);
}

/// On this device, and on one that stages tensors as a GPU does.
std::vector<std::shared_ptr<Device>> both_kinds() {
  PhysicalDevice physical = Instance::get().devices().back();
  physical.profile.host_pointers = false;
  return {open_device(""), std::make_shared<Device>(physical)};
}

TEST(TimedCalls, TakeTensorsInPieces) {
  for (const auto& device : both_kinds()) {
    const auto engine = Engine::create(device, tenfold());
    const auto set = engine->prepare_weights({});
    TimedCalls calls(engine);
    expect_tenfold_in_pieces(calls, *set, {3, 5, 0, 113, 1});
    expect_tenfold_in_pieces(calls, *set, {0, 5, 3});
    expect_tenfold_in_pieces(calls, *set, {122});
    expect_tenfold(calls, *set, 122);
    expect_tenfold_in_pieces(calls, *set, {1, 1, 997});  // which need more memory
    expect_tenfold_in_pieces(calls, *set, {7, 115});
  }
}

TEST(TimedCalls, RefusePiecesOfAnotherSize) {
  const auto engine = Engine::create(open_device(""), tenfold());
  const auto set = engine->prepare_weights({});
  TimedCalls calls(engine);
  std::vector<float> xs = ramp(8), ys(8);
  const HostTensor half{xs.data(), 16};
  const std::vector<HostPieces> whole{{host(xs)}}, less{{half}}, out{{host(ys)}};
  const std::vector<HostPieces> nowhere{{half, HostTensor{nullptr, 16}}};
  const int64_t symbols[] = {8};
  EXPECT_THROW(calls.run_pieces(*set, symbols, less, out), Error);
  EXPECT_THROW(calls.run_pieces(*set, symbols, nowhere, out), Error);
  EXPECT_THROW(calls.run_pieces(*set, symbols, whole, less), Error);
  calls.run_pieces(*set, symbols, whole, out);
  EXPECT_EQ(ys[7], 10 * xs[7]);
}

TEST(TimedCalls, RefuseAnotherEnginesWeights) {
  const auto engine = Engine::create(open_device(""), tenfold());
  const auto other = Engine::create(open_device(""), tenfold())->prepare_weights({});
  TimedCalls calls(engine);
  const int64_t symbols[] = {1};
  EXPECT_THROW(calls.run(*other, symbols, {}, {}), Error);
}

}  // namespace
}  // namespace tv
