// Long engines in several submissions: where they are cut, and that the results are the same bits.

#include <array>
#include <cstring>

#include "runtime/commands/submissions.h"
#include "tests/cpp/kit/runtime_fixture.h"

namespace tv {
namespace {

using namespace test;  // NOLINT

/// A chain of `count` steps over s0 floats: y = x · 2 + x, then · 2 + x again, …
EngineSpec chain(int count) {
  SpecBuilder b(Expr::symbol(0));
  b.spec.symbols = {{"n", 1, 1000, kUnbounded}};
  const uint32_t x = b.input("x"), y = b.output("y");
  uint32_t from = x;
  for (int i = 0; i < count; ++i) {
    const uint32_t to = i + 1 == count ? y : b.arena("t" + std::to_string(i));
    b.step("step" + std::to_string(i), to, from, x, 2);
    from = to;
  }
  return b.spec;
}

EncodedProgram encoded(const EngineSpec& spec, int64_t n) {
  const int64_t symbols[] = {n};
  std::vector<Placement> placements(spec.buffers.size());
  for (size_t b = 0; b < placements.size(); ++b) placements[b].space = static_cast<uint32_t>(b);
  return encode({spec, spec.dispatches, symbols, placements, {65535, 65535, 65535}, {}});
}

std::vector<size_t> starts(const EngineSpec& spec, int64_t n, double limit_us) {
  const int64_t symbols[] = {n};
  return submission_starts(spec, encoded(spec, n), symbols, limit_us);
}

TEST(Submissions, CutsByMeasuredTime) {
  EngineSpec spec = chain(6);
  const float times[] = {40, 40, 40, 500, 10, 10};
  for (size_t i = 0; i < 6; ++i) spec.dispatches[i].time_us = times[i];
  EXPECT_EQ(starts(spec, 1000, 100), (std::vector<size_t>{2, 3, 4}));
  EXPECT_EQ(starts(spec, 1000, 1e6), std::vector<size_t>{});
  EXPECT_EQ(starts(spec, 1000, 0), std::vector<size_t>{}) << "0 is no limit";
}

TEST(Submissions, SeveralRunsAreCutLikeOne) {
  EngineSpec spec = chain(3);
  for (Dispatch& d : spec.dispatches) d.time_us = 40;
  const int64_t symbols[] = {1000};
  const auto cut = submission_starts(spec, encoded(spec, 1000), symbols, 200, 4);
  EXPECT_EQ(cut, (std::vector<size_t>{5, 10}));
  const auto ranges = recorded_ranges(3, 4, cut);
  std::vector<std::array<size_t, 3>> got;
  for (const DispatchRange& r : ranges) got.push_back({r.first, r.end, r.next_submission});
  EXPECT_EQ(got, (std::vector<std::array<size_t, 3>>{
                     {0, 3, 0}, {0, 2, 0}, {2, 3, 1}, {0, 3, 0}, {0, 1, 0}, {1, 3, 1}}));
  EXPECT_EQ(recorded_ranges(3, 1, {}).size(), 1u);
}

TEST(Submissions, MoreBytesTakeMoreTime) {
  EngineSpec spec = chain(4);
  for (Dispatch& d : spec.dispatches) d.time_us = 30;  // at 1000 elements
  EXPECT_EQ(starts(spec, 1000, 130).size(), 0u);
  EXPECT_EQ(starts(spec, 10, 130).size(), 0u);
  EXPECT_EQ(starts(spec, 2000, 130).size(), 1u);
  EXPECT_EQ(starts(spec, 100000, 130).size(), 3u);
  for (Dispatch& d : spec.dispatches) d.time_us = 0;  // not measured
  EXPECT_EQ(starts(spec, 1000, 1000).size(), 0u);
  EXPECT_EQ(starts(spec, 100000000, 1000).size(), 3u);
}

TEST(Submissions, CpuDriversHaveNoWatchdog) {
  DeviceProfile profile;
  EXPECT_GT(submission_limit_us(profile, {}), 0);
  profile.type = DeviceType::kCpu;
  EXPECT_EQ(submission_limit_us(profile, {}), 0);
  EXPECT_EQ(submission_limit_us(profile, {.submit_us = 7}), 7);
}

TEST(Submissions, GiveTheSameBits) {
  auto engine = Engine::create(open_device(""), chain(9));
  const auto set = engine->prepare_weights({});
  const auto run = [&](int64_t n) {
    auto xs = ramp(static_cast<size_t>(n), 3);
    std::vector<float> ys(static_cast<size_t>(n), -1);
    const HostTensor inputs[] = {host(xs)}, outputs[] = {host(ys)};
    const int64_t symbols[] = {n};
    engine->run(*set, symbols, inputs, outputs);
    return ys;
  };
  for (const int64_t n : {1, 1009, 70001}) {
    const auto whole = run(n);
    EXPECT_EQ(whole[0], 3.0F * 1023);  // 2^10 - 1
    for (const int64_t limit_us : {1, 60, 1000000}) {
      const ScopedModes scoped({.check_hazards = true, .submit_us = limit_us});
      for (int repeat = 0; repeat < 3; ++repeat) EXPECT_EQ(run(n), whole) << n << " " << limit_us;
      const size_t parts = impl(engine).submissions_of_last_recording();
      if (limit_us != 60) {
        EXPECT_EQ(parts, limit_us == 1 ? 9u : 1u);
      }
    }
    EXPECT_EQ(run(n), whole);
  }
}

}  // namespace
}  // namespace tv
