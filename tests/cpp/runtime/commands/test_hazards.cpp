// The hazard gates on a real device: a poisoned arena and full barriers give the same bits, the
// check passes, and it fails for each barrier that is left out.

#include <cmath>
#include <cstring>

#include "runtime/base/error.h"
#include "tests/cpp/kit/runtime_fixture.h"

namespace tv {
namespace {

using namespace test;  // NOLINT

/// A ladder of ten steps whose arena buffers share memory.
SpecBuilder ladder() {
  SpecBuilder b(1009);
  const uint32_t x = b.input("x");
  uint32_t older = x, newer = x;
  for (int i = 0; i < 10; ++i) {
    const uint32_t t = b.arena("t" + std::to_string(i));
    b.step("step" + std::to_string(i), t, newer, older, 0.5F);
    older = newer;
    newer = t;
  }
  const uint32_t y = b.output("y");
  b.step("last", y, newer, older, 1);
  return b;
}

struct Runner {
  explicit Runner(const EngineSpec& spec)
      : engine(Engine::create(open_device(""), spec)), weights(engine->prepare_weights({})) {}
  std::vector<float> operator()() const {
    std::vector<float> xs = ramp(1009), ys(1009);
    const HostTensor inputs[] = {host(xs)}, outputs[] = {host(ys)};
    engine->run(*weights, {}, inputs, outputs);
    return ys;
  }
  std::shared_ptr<Engine> engine;
  std::shared_ptr<const WeightSet> weights;
};

TEST(RuntimeHazards, TheArenaIsReused) {
  const Runner run(ladder().spec);
  EXPECT_LE(run.engine->arena_bytes({}), 4 * 4352);
}

TEST(RuntimeHazards, PoisonAndFullBarriersGiveTheSameBits) {
  const Runner run(ladder().spec);
  const std::vector<float> plain = run();
  for (const DebugModes& modes : {DebugModes{.poison_arena = true, .check_hazards = true},
                                  DebugModes{.full_barriers = true, .check_hazards = true},
                                  DebugModes{.poison_arena = true, .full_barriers = true}}) {
    const ScopedModes scoped(modes);
    const std::vector<float> other = run();
    EXPECT_EQ(std::memcmp(plain.data(), other.data(), plain.size() * sizeof(float)), 0);
  }
  EXPECT_EQ(run(), plain);
}

TEST(RuntimeHazards, PoisonShowsAReadOfMemoryThatNobodyWrote) {
  SpecBuilder b(1009);
  const uint32_t x = b.input("x"), t = b.arena("half written"), out = b.output("y");
  b.step("writes one element", t, x, x, 1).step("reads all", out, x, t, 1);
  b.spec.dispatches[0].words[0] = Expr(1);
  const Runner run(b.spec);
  const ScopedModes scoped({.poison_arena = true});
  for (int i = 0; i < 2; ++i) {
    const std::vector<float> y = run();
    EXPECT_FALSE(std::isnan(y[0]));
    for (size_t k = 1; k < y.size(); ++k) ASSERT_TRUE(std::isnan(y[k])) << k;
  }
}

TEST(RuntimeHazards, EachRemovedBarrierIsFound) {
  const Runner run(ladder().spec);
  run();
  EXPECT_EQ(impl(run.engine).faults_of_last_recording(), std::vector<std::string>());
  const int64_t barriers = impl(run.engine).barriers({});
  ASSERT_EQ(barriers, 10);
  for (int64_t k = 0; k < barriers; ++k) {
    const ScopedModes scoped({.remove_barrier = k});
    run();
    const auto faults = impl(run.engine).faults_of_last_recording();
    ASSERT_FALSE(faults.empty()) << "barrier " << k;
    EXPECT_NE(faults[0].find("race: "), std::string::npos) << faults[0];
  }
}

TEST(RuntimeHazards, TheCheckingModeRefusesARacyRecording) {
  const Runner run(ladder().spec);
  {
    const ScopedModes scoped({.check_hazards = true});
    EXPECT_NO_THROW(run());
  }
  const ScopedModes scoped({.check_hazards = true, .remove_barrier = 3});
  try {
    run();
    FAIL() << "the race was not found";
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::kInternal);
    EXPECT_NE(std::string(e.what()).find("[hazard check] race: step"), std::string::npos)
        << e.what();
  }
}

}  // namespace
}  // namespace tv
