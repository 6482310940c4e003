// Weights that change: what is made again, and what is shared with the older set.

#include <cstring>
#include <random>

#include "runtime/base/error.h"
#include "runtime/engine/weight_set.h"
#include "tests/cpp/kit/runtime_fixture.h"

namespace tv::test {
namespace {

/// x + Σ over the packed weights, where packed k = 3 w[k], of which the temporary is 2 w[k] + w[k];
/// the last weight is read as it is.
SpecBuilder packed(size_t count, size_t n = 100) {
  SpecBuilder b(static_cast<int64_t>(n));
  uint32_t sum = b.input("x");
  for (size_t k = 0; k < count; ++k) {
    const std::string number = std::to_string(k);
    const uint32_t w = b.weight("w" + number), twice = b.persistent("twice" + number),
                   thrice = b.persistent("thrice" + number);
    b.spec.weight_program.push_back(b.mul_add("a" + number, twice, w, w, 0));       // w
    b.spec.weight_program.push_back(b.mul_add("b" + number, thrice, twice, w, 2));  // 3 w
    const uint32_t next = b.arena("sum" + number);
    b.step("add" + number, next, sum, thrice, 1);
    sum = next;
  }
  const uint32_t plain = b.weight("plain");
  b.step("last", b.output("y"), sum, plain, 1);
  return b;
}

const WeightSet& set_of(const std::shared_ptr<const WeightSet>& set) { return *set; }

void expect_sum(Engine& engine, const WeightSet& set, const std::vector<std::vector<float>>& ws) {
  const size_t n = ws[0].size();
  auto xs = ramp(n, 5);
  std::vector<float> ys(n);
  const HostTensor inputs[] = {host(xs)}, outputs[] = {host(ys)};
  engine.run(set, {}, inputs, outputs);
  for (size_t i = 0; i < n; ++i) {
    float want = xs[i] + ws.back()[i];
    for (size_t k = 0; k + 1 < ws.size(); ++k) want += 3 * ws[k][i];
    ASSERT_EQ(ys[i], want) << "element " << i;
  }
}

std::vector<HostTensor> hosts(std::vector<std::vector<float>>& ws) {
  std::vector<HostTensor> tensors;
  for (auto& w : ws) tensors.push_back(host(w));
  return tensors;
}

TEST(Weights, AChangeRunsOnlyWhatDependsOnIt) {
  auto engine = Engine::create(open_device(""), packed(4).spec);
  std::vector<std::vector<float>> ws(5, ramp(100));
  const auto first = engine->prepare_weights(hosts(ws));
  EXPECT_EQ(set_of(first).steps_run(), 8u);
  const auto before = ws;
  auto after = ws;
  after[2] = ramp(100, 40);
  const uint32_t changed[] = {2};
  const auto second = engine->update_weights(*first, hosts(after), changed);
  EXPECT_EQ(set_of(second).steps_run(), 2u);
  expect_sum(*engine, *second, after);
  if (!profile(*engine->device()).host_pointers) return;
  expect_sum(*engine, *first, before);  // the older set stands
}

TEST(Weights, MemoryOfWhatIsPackedMayGo) {
  auto engine = Engine::create(open_device(""), packed(3).spec);
  const bool host_pointers = profile(*engine->device()).host_pointers;
  EXPECT_EQ(engine->weights_in_place(), (std::vector<bool>{false, false, false, host_pointers}));
  std::vector<std::vector<float>> ws(4, ramp(100));
  const auto want = ws;
  const auto set = engine->prepare_weights(hosts(ws));
  for (size_t k = 0; k < 3; ++k) std::ranges::fill(ws[k], -1e6f);
  expect_sum(*engine, *set, want);
}

TEST(Weights, AChangeOfNothingOrOfAnInputOfNoStep) {
  auto engine = Engine::create(open_device(""), packed(2).spec);
  std::vector<std::vector<float>> ws(3, ramp(100));
  const auto first = engine->prepare_weights(hosts(ws));
  expect_sum(*engine, *engine->update_weights(*first, hosts(ws), {}), ws);
  ws[2] = ramp(100, 9);
  const uint32_t changed[] = {2};
  const auto second = engine->update_weights(*first, hosts(ws), changed);
  EXPECT_EQ(set_of(second).steps_run(), 0u);
  expect_sum(*engine, *second, ws);
}

TEST(Weights, ManyRandomChanges) {
  auto engine = Engine::create(open_device(""), packed(5).spec);
  std::vector<std::vector<float>> ws(6, ramp(100));
  auto set = engine->prepare_weights(hosts(ws));
  std::vector<std::vector<std::vector<float>>> alive = {ws};  // memory that sets may read
  std::mt19937 random(7);
  for (int round = 0; round < 30; ++round) {
    std::vector<uint32_t> changed;
    auto next = alive.back();
    for (uint32_t k = 0; k < next.size(); ++k) {
      if (random() % 3 != 0) continue;
      changed.push_back(k);
      next[k] = ramp(100, static_cast<float>(random() % 50));
    }
    alive.push_back(next);
    set = engine->update_weights(*set, hosts(alive.back()), changed);
    expect_sum(*engine, *set, alive.back());
  }
}

TEST(Weights, MemoryOfManyChangesIsBounded) {
  constexpr size_t kFloats = 1 << 20;
  auto engine = Engine::create(open_device(""), packed(4, kFloats).spec);
  std::vector<std::vector<float>> ws(5, ramp(kFloats));
  auto set = engine->prepare_weights(hosts(ws));
  const int64_t once = set_of(set).held_bytes();
  for (uint32_t round = 0; round < 12; ++round) {
    const uint32_t changed[] = {round % 4};
    set = engine->update_weights(*set, hosts(ws), changed);
    EXPECT_LE(set_of(set).held_bytes(), 3 * once + (32 << 20));
  }
  expect_sum(*engine, *set, ws);
}

TEST(Weights, AWrongChangeLeavesTheOldSet) {
  auto engine = Engine::create(open_device(""), packed(1).spec);
  std::vector<std::vector<float>> ws(2, ramp(100));
  const auto set = engine->prepare_weights(hosts(ws));
  auto wrong = hosts(ws);
  wrong[0].size_bytes = 44;
  const uint32_t changed[] = {0}, outside[] = {2};
  EXPECT_THROW(engine->update_weights(*set, wrong, changed), Error);
  EXPECT_THROW(engine->update_weights(*set, hosts(ws), outside), Error);
  expect_sum(*engine, *set, ws);
}

/// joined = [w0 w1] by two steps; kept = joined · 1 + w2.
TEST(Weights, ABufferWrittenInPartsIsMadeWhole) {
  SpecBuilder b(64);
  const uint32_t x = b.input("x"), w0 = b.weight("w0"), w1 = b.weight("w1"), y = b.output("y");
  const uint32_t joined = b.persistent("joined");
  for (const int64_t half : {0, 1}) {
    Dispatch d = b.mul_add("part", joined, half ? w1 : w0, half ? w1 : w0, 0);
    d.operands[0] = writes(joined, 128, half * 128);
    d.operands[1] = reads(half ? w1 : w0, 128, half * 128);
    d.operands[2] = d.operands[1];
    d.words[0] = Expr(32);
    b.spec.weight_program.push_back(d);
  }
  b.step("use", y, x, joined, 1);
  auto engine = Engine::create(open_device(""), b.spec);
  std::vector<std::vector<float>> ws = {ramp(64, 1), ramp(64, 2)};
  const auto first = engine->prepare_weights(hosts(ws));
  ws[1] = ramp(64, 77);
  const uint32_t changed[] = {1};
  const auto second = engine->update_weights(*first, hosts(ws), changed);
  EXPECT_EQ(set_of(second).steps_run(), 2u);
  auto xs = ramp(64);
  std::vector<float> ys(64);
  const HostTensor inputs[] = {host(xs)}, outputs[] = {host(ys)};
  engine->run(*second, {}, inputs, outputs);
  for (size_t i = 0; i < 64; ++i) ASSERT_EQ(ys[i], xs[i] + ws[i / 32][i]) << i;
}

TEST(Weights, AnEmptyOneHasMemoryToo) {
  const auto engine = Engine::create(open_device(""), packed(1, 0).spec);
  const HostTensor nothing[] = {{}, {}};
  const auto set = engine->prepare_weights(nothing);
  if (!profile(*engine->device()).host_pointers) GTEST_SKIP() << "weights are copied";
  const auto& buffers = engine->spec().buffers;
  for (size_t b = 0; b < buffers.size(); ++b) {
    if (buffers[b].kind != BufferKind::kWeight) continue;
    EXPECT_NE(set_of(set).addresses()[b], 0u) << b;
  }
}

TEST(WeightPlan, TemporariesOfUnchangedWeightsAreComputedAgain) {
  // scale = f(g) is a temporary; packed = w · scale is kept.
  SpecBuilder b(64);
  const uint32_t x = b.input("x"), w = b.weight("w"), g = b.weight("g"), other = b.weight("other");
  const uint32_t scale = b.persistent("scale"), kept = b.persistent("packed"),
                 third = b.persistent("third");
  b.spec.weight_program = {b.mul_add("scale", scale, g, g, 1), b.mul_add("pack", kept, w, scale, 1),
                           b.mul_add("third", third, other, other, 1)};
  const uint32_t t = b.arena("t");
  b.step("use", t, x, kept, 1).step("use", b.output("y"), t, third, 1);
  const uint32_t changed[] = {0};
  const WeightPlan plan = plan_changed_weights(b.spec, changed);
  EXPECT_EQ(plan.run, (std::vector<uint32_t>{0, 1}));
  EXPECT_TRUE(plan.needed[w] && plan.needed[g]);
  EXPECT_FALSE(plan.needed[other]);
  EXPECT_TRUE(plan.fresh[kept] && plan.fresh[scale]);
  EXPECT_FALSE(plan.fresh[third]);
}

}  // namespace
}  // namespace tv::test
