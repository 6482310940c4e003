// Concurrent calls: one engine and several, from many threads.

#include <atomic>
#include <thread>

#include "tests/cpp/kit/runtime_fixture.h"

namespace tv {
namespace {

using namespace test;  // NOLINT

EngineSpec scale_by(float factor) {
  SpecBuilder b(Expr::symbol(0));
  b.spec.symbols = {{"n", 1, 64, 5000}};
  const uint32_t x = b.input("x"), w = b.weight("w"), t = b.arena("t"), y = b.output("y");
  b.spec.weights[0].shape = {5000};
  b.spec.buffers[w].size_bytes = 20000;
  b.step("scale", t, x, w, factor).step("again", y, t, w, 1);
  return b.spec;
}

/// Runs `engine` with a size of its own on each call; counts wrong elements.
int64_t hammer(Engine& engine, const WeightSet& weights, float factor, float w, int thread) {
  int64_t wrong = 0;
  for (int i = 0; i < 60; ++i) {
    const size_t n = static_cast<size_t>(1 + (thread * 131 + i * 37) % 5000);
    auto xs = ramp(n, static_cast<float>(thread));
    std::vector<float> ys(n);
    const HostTensor inputs[] = {host(xs)}, outputs[] = {host(ys)};
    const int64_t symbols[] = {static_cast<int64_t>(n)};
    engine.run(weights, symbols, inputs, outputs);
    for (size_t k = 0; k < n; ++k) wrong += ys[k] != xs[k] * factor + 2 * w;
  }
  return wrong;
}

TEST(RuntimeThreads, CallsOfOneEngineDoNotDisturbEachOther) {
  auto engine = Engine::create(open_device(""), scale_by(3));
  std::vector<float> w1(5000, 1), w2(5000, 2);
  const HostTensor h1[] = {host(w1)}, h2[] = {host(w2)};
  const auto set1 = engine->prepare_weights(h1), set2 = engine->prepare_weights(h2);
  std::atomic<int64_t> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      const bool first = t % 2 == 0;
      wrong += hammer(*engine, first ? *set1 : *set2, 3, first ? 1 : 2, t);
    });
  }
  for (auto& t : threads) t.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_LE(impl(engine).stats().contexts, 8U);
}

TEST(RuntimeThreads, SeveralEnginesAreMadeAndRunAtOnce) {
  const auto device = open_device("");
  std::atomic<int64_t> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 6; ++t) {
    threads.emplace_back([&, t] {
      const float factor = static_cast<float>(t + 1);
      auto engine = Engine::create(device, scale_by(factor));
      std::vector<float> w(5000, 1);
      const HostTensor weights[] = {host(w)};
      wrong += hammer(*engine, *engine->prepare_weights(weights), factor, 1, t);
    });
  }
  for (auto& t : threads) t.join();
  EXPECT_EQ(wrong, 0);
}

TEST(RuntimeThreads, OpeningADeviceIsSafe) {
  std::vector<std::shared_ptr<Device>> devices(8);
  std::vector<std::thread> threads;
  for (auto& d : devices) threads.emplace_back([&d] { d = open_device(""); });
  for (auto& t : threads) t.join();
  for (auto& d : devices) EXPECT_EQ(d, devices[0]);
}

}  // namespace
}  // namespace tv
