// Engines on a real device: results, shapes, weights.

#include "runtime/error.h"
#include "tests/cpp/runtime_fixture.h"

namespace tv {
namespace {

using namespace test;  // NOLINT

TEST(RuntimeEngine, RunsAChainThroughTheArena) {
  SpecBuilder b(257);
  const uint32_t x = b.input("x"), w = b.weight("w"), t = b.arena("t"), y = b.output("y");
  b.step("first", t, x, w, 2).step("second", y, t, x, 3);
  auto engine = Engine::create(open_device(""), b.spec);
  auto xs = ramp(257), ws = ramp(257, 5);
  std::vector<float> ys(257);
  const HostTensor weights[] = {host(ws)}, inputs[] = {host(xs)}, outputs[] = {host(ys)};
  const auto set = engine->prepare_weights(weights);
  engine->run(*set, {}, inputs, outputs);
  for (size_t i = 0; i < ys.size(); ++i) ASSERT_EQ(ys[i], (xs[i] * 2 + ws[i]) * 3 + xs[i]) << i;
}

}  // namespace
}  // namespace tv
