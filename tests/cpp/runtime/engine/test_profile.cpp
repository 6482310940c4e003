// Times of dispatches by the device's clock.

#include "runtime/base/error.h"
#include "tests/cpp/kit/runtime_fixture.h"

namespace tv {
namespace {

using namespace test;  // NOLINT

TEST(RuntimeProfile, EveryDispatchHasATimeAndItsBytes) {
  SpecBuilder b{Expr::symbol(0)};
  b.spec.symbols = {{"n", 1, 64, 1 << 20}};
  const uint32_t x = b.input("x"), t = b.arena("t"), y = b.output("y");
  b.step("first", t, x, x, 2).step("second", y, t, x, 3);
  auto engine = Engine::create(open_device(""), b.spec);
  const auto set = engine->prepare_weights({});
  for (const int64_t n : {1, 1009, 100'003}) {
    auto xs = ramp(static_cast<size_t>(n));
    std::vector<float> ys(static_cast<size_t>(n), -1);
    const HostTensor inputs[] = {host(xs)}, outputs[] = {host(ys)};
    const int64_t symbols[] = {n};
    const auto times = engine->time_dispatches(*set, symbols, inputs, outputs, 5);
    ASSERT_EQ(times.size(), 2U);
    for (const DispatchTime& time : times) {
      EXPECT_GT(time.time_us, 0);
      EXPECT_EQ(time.bytes, 3 * 4 * n);
    }
    for (size_t i = 0; i < ys.size(); ++i) ASSERT_EQ(ys[i], 10 * xs[i]) << "n " << n << " at " << i;
  }
}

TEST(RuntimeProfile, SizesAreChecked) {
  SpecBuilder b{Expr(64)};
  const uint32_t x = b.input("x"), y = b.output("y");
  b.step("only", y, x, x, 2);
  auto engine = Engine::create(open_device(""), b.spec);
  const auto set = engine->prepare_weights({});
  std::vector<float> xs(63), ys(64);
  const HostTensor inputs[] = {host(xs)}, outputs[] = {host(ys)};
  EXPECT_THROW(engine->time_dispatches(*set, {}, inputs, outputs, 1), Error);
}

}  // namespace
}  // namespace tv
