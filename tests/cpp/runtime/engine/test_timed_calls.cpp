#include <thread>

#include "runtime/engine/timed_calls.h"
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

TEST(TimedCalls, RefuseAnotherEnginesWeights) {
  const auto engine = Engine::create(open_device(""), tenfold());
  const auto other = Engine::create(open_device(""), tenfold())->prepare_weights({});
  TimedCalls calls(engine);
  const int64_t symbols[] = {1};
  EXPECT_THROW(calls.run(*other, symbols, {}, {}), Error);
}

}  // namespace
}  // namespace tv
