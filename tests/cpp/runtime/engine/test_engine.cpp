// Engines on a real device: results, shapes, weights, memory.

#include <algorithm>
#include <cstring>

#include "runtime/vulkan/device_impl.h"
#include "tests/cpp/kit/runtime_fixture.h"

namespace tv {
namespace {

using namespace test;  // NOLINT

/// y = (x * 2 + w) * 3 + x for n floats, through one arena buffer.
struct Chain {
  explicit Chain(Expr n, std::vector<Symbol> symbols = {}) : builder(std::move(n)) {
    builder.spec.symbols = std::move(symbols);
    const uint32_t x = builder.input("x"), w = builder.weight("w");
    const uint32_t t = builder.arena("t"), y = builder.output("y");
    builder.step("first", t, x, w, 2).step("second", y, t, x, 3);
  }
  SpecBuilder builder;
};

TEST(RuntimeEngine, RunsAChainThroughTheArena) {
  auto engine = Engine::create(open_device(""), Chain(257).builder.spec);
  auto xs = ramp(257), ws = ramp(257, 5);
  std::vector<float> ys(257);
  const HostTensor weights[] = {host(ws)}, inputs[] = {host(xs)}, outputs[] = {host(ys)};
  const auto set = engine->prepare_weights(weights);
  engine->run(*set, {}, inputs, outputs);
  for (size_t i = 0; i < ys.size(); ++i) ASSERT_EQ(ys[i], (xs[i] * 2 + ws[i]) * 3 + xs[i]) << i;
}

/// An engine without weights over vectors of s0 floats: y = (x * 2 + x) * 3 + x = 10 x.
SpecBuilder tenfold(int64_t min, int64_t max) {
  SpecBuilder b(Expr::symbol(0));
  b.spec.symbols = {{"n", min, std::clamp<int64_t>(8, min, max), max}};
  const uint32_t x = b.input("x"), t = b.arena("t"), y = b.output("y");
  b.step("first", t, x, x, 2).step("second", y, t, x, 3);
  return b;
}

void expect_tenfold(Engine& engine, const WeightSet& weights, int64_t n, float start) {
  auto xs = ramp(static_cast<size_t>(n), start);
  std::vector<float> ys(static_cast<size_t>(n), -1);
  const HostTensor inputs[] = {host(xs)}, outputs[] = {host(ys)};
  const int64_t symbols[] = {n};
  engine.run(weights, symbols, inputs, outputs);
  for (size_t i = 0; i < ys.size(); ++i) ASSERT_EQ(ys[i], 10 * xs[i]) << "n " << n << " at " << i;
}

TEST(RuntimeEngine, ServesARangeOfShapes) {
  auto engine = Engine::create(open_device(""), tenfold(0, kUnbounded).spec);
  const auto set = engine->prepare_weights({});
  for (const int64_t n : {1, 3, 63, 64, 65, 1009, 0, 3, 70001, 1009}) {
    expect_tenfold(*engine, *set, n, 2);
  }
  const int64_t small[] = {3}, large[] = {70001};
  EXPECT_LT(engine->arena_bytes(small), engine->arena_bytes(large));
}

TEST(RuntimeEngine, RefusesLoopsThatTheDeviceWouldEnd) {
  SpecBuilder b = tenfold(0, kUnbounded);
  b.spec.dispatches[1].iterations = 100 * Expr::symbol(0);
  auto engine = Engine::create(open_device(""), b.spec);
  const auto set = engine->prepare_weights({});
  expect_tenfold(*engine, *set, 600, 2);
  if (!profile(*engine->device()).is_cpu()) GTEST_SKIP() << "this device makes any loop";
  try {
    expect_tenfold(*engine, *set, 601, 2);
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUnsupported);
    EXPECT_NE(std::string(error.what()).find("[second] needs 60100 loop iterations"),
              std::string::npos)
        << error.what();
  }
  expect_tenfold(*engine, *set, 3, 2);
}

TEST(RuntimeEngine, KeepsRecordingsOfRecentShapesOnly) {
  auto engine = Engine::create(open_device(""), tenfold(1, 1000).spec);
  const auto set = engine->prepare_weights({});
  std::vector<float> xs(1000, 1), ys(1000);
  const auto run = [&](int64_t n) {
    const HostTensor inputs[] = {{xs.data(), n * 4}}, outputs[] = {{ys.data(), n * 4}};
    const int64_t symbols[] = {n};
    engine->run(*set, symbols, inputs, outputs);
  };
  run(1000);  // the arena does not grow after this
  const uint64_t before = engine->stats().recordings;
  const double before_us = engine->stats().recording_us;
  EXPECT_GT(before_us, 0);
  for (int repeat = 0; repeat < 3; ++repeat) run(1000);
  EXPECT_EQ(engine->stats().recordings, before) << "the same call is not recorded again";
  EXPECT_EQ(engine->stats().recording_us, before_us);
  for (int64_t n = 1; n <= 40; ++n) run(n);
  EXPECT_EQ(impl(engine).stats().recordings, before + 40);
  run(40);
  EXPECT_EQ(impl(engine).stats().recordings, before + 40);
  run(1000);  // was dropped
  EXPECT_EQ(impl(engine).stats().recordings, before + 41);
  EXPECT_EQ(ys[999], 10);
}

TEST(RuntimeEngine, FollowsTheCallersMemory) {
  auto engine = Engine::create(open_device(""), tenfold(1, 100).spec);
  const auto set = engine->prepare_weights({});
  for (int i = 0; i < 20; ++i) expect_tenfold(*engine, *set, 37, static_cast<float>(i));
}

TEST(RuntimeEngine, TakesMisalignedAndOverlappingTensors) {
  auto engine = Engine::create(open_device(""), tenfold(1, 100).spec);
  const auto set = engine->prepare_weights({});
  const int64_t symbols[] = {29};
  for (size_t shift = 0; shift < 5; ++shift) {
    std::vector<float> memory(200, 1);
    for (size_t i = 0; i < 29; ++i) memory[shift + i] = static_cast<float>(i);
    const HostTensor inputs[] = {{memory.data() + shift, 29 * 4}};
    const HostTensor outputs[] = {{memory.data() + 100 + shift, 29 * 4}};
    engine->run(*set, symbols, inputs, outputs);
    for (size_t i = 0; i < 29; ++i) ASSERT_EQ(memory[100 + shift + i], 10.0F * i) << shift;
    ASSERT_EQ(memory[99 + shift], 1) << "bytes before the output are not touched";
    ASSERT_EQ(memory[129 + shift], 1) << "bytes after the output are not touched";
  }
  std::vector<float> same(29, 3);  // in place: the last step reads and writes element by element
  const HostTensor tensor[] = {host(same)};
  engine->run(*set, symbols, tensor, tensor);
  EXPECT_EQ(same, std::vector<float>(29, 30));
  EXPECT_EQ(impl(engine).faults_of_last_recording(), std::vector<std::string>());
}

TEST(RuntimeEngine, FoldsGridsThatPassTheLimit) {
  const int64_t n = 64 * 70000 + 11;  // 70001 workgroups
  auto engine = Engine::create(open_device(""), tenfold(1, kUnbounded).spec);
  expect_tenfold(*engine, *engine->prepare_weights({}), n, 0);
}

TEST(RuntimeEngine, PutsLongParametersInABlock) {
  SpecBuilder b(100);
  b.spec.modules = {compile(kMulAddBlock)};
  b.spec.pipelines[0].param_block = true;
  const uint32_t x = b.input("x"), t = b.arena("t"), y = b.output("y");
  b.step("first", t, x, x, 2).step("second", y, t, x, 3);
  auto engine = Engine::create(open_device(""), b.spec);
  const auto set = engine->prepare_weights({});
  auto xs = ramp(100);
  for (int i = 0; i < 3; ++i) {
    std::vector<float> ys(100);
    const HostTensor inputs[] = {host(xs)}, outputs[] = {host(ys)};
    engine->run(*set, {}, inputs, outputs);
    for (size_t k = 0; k < ys.size(); ++k) ASSERT_EQ(ys[k], 10 * xs[k]);
  }
}

TEST(RuntimeEngine, PassesSpecialisationConstantsAndSubgroupSize) {
  const auto device = open_device("");
  SpecBuilder b(64);
  b.spec.modules = {compile_kernel("constants", std::string(kPreamble) + R"(
layout(constant_id = 0) const uint kAdd = 1;
layout(constant_id = 1) const float kFactor = 1.0;
layout(push_constant, scalar) uniform P { Floats y; Floats a; Floats b; uint n; float factor; };
void main() { y.v[gl_LocalInvocationID.x] = a.v[gl_LocalInvocationID.x] * kFactor + float(kAdd); }
)",
                                   Settings{})};
  uint32_t factor = 0;
  const float value = 2.5F;
  std::memcpy(&factor, &value, 4);
  b.spec.pipelines[0].spec_constants = {7, factor};
  b.spec.pipelines[0].subgroup_size = profile(*device).subgroup_size;
  const uint32_t x = b.input("x"), y = b.output("y");
  b.step("only", y, x, x, 2);
  auto engine = Engine::create(device, b.spec);
  auto xs = ramp(64);
  std::vector<float> ys(64);
  const HostTensor inputs[] = {host(xs)}, outputs[] = {host(ys)};
  engine->run(*engine->prepare_weights({}), {}, inputs, outputs);
  for (size_t i = 0; i < 64; ++i) ASSERT_EQ(ys[i], xs[i] * 2.5F + 7);

  b.spec.pipelines[0].subgroup_size = profile(*device).max_subgroup_size * 2;
  try {
    Engine::create(device, b.spec);
    FAIL() << "a subgroup size that the device lacks was taken";
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::kUser);
    EXPECT_NE(std::string(e.what()).find("subgroups of"), std::string::npos) << e.what();
  }
}

/// p1 = w * 2 + w, p2 = p1 * 1 + w (the temporary p1 is not kept); y = x * 1 + p2 = x + 4 w.
SpecBuilder with_weight_program() {
  SpecBuilder b(1000);
  const uint32_t x = b.input("x"), w = b.weight("w"), y = b.output("y");
  const uint32_t p1 = b.persistent("p1"), p2 = b.persistent("p2");
  b.spec.weight_program = {b.mul_add("triple", p1, w, w, 2), b.mul_add("add", p2, p1, w, 1)};
  b.step("use", y, x, p2, 1);
  return b;
}

TEST(RuntimeEngine, RunsTheWeightProgramOncePerSet) {
  auto engine = Engine::create(open_device(""), with_weight_program().spec);
  auto w1 = ramp(1000), w2 = ramp(1000, 3), xs = ramp(1000, 9);
  const HostTensor weights1[] = {host(w1)}, weights2[] = {host(w2)};
  const auto set1 = engine->prepare_weights(weights1), set2 = engine->prepare_weights(weights2);
  EXPECT_EQ(set1->held_bytes(), 4096) << "neither the temporary nor a copy of the weight is kept";
  std::vector<float> ys(1000);
  const HostTensor inputs[] = {host(xs)}, outputs[] = {host(ys)};
  const std::vector<float> old = w1;
  std::fill(w1.begin(), w1.end(), 0.0F);  // read once, when the set was made
  for (int i = 0; i < 3; ++i) {
    engine->run(*set1, {}, inputs, outputs);
    for (size_t k = 0; k < ys.size(); ++k) ASSERT_EQ(ys[k], xs[k] + 4 * old[k]);
    engine->run(*set2, {}, inputs, outputs);
    for (size_t k = 0; k < ys.size(); ++k) ASSERT_EQ(ys[k], xs[k] + 4 * w2[k]);
  }
}

TEST(RuntimeEngine, WeightsOutliveTheirEngine) {
  std::shared_ptr<const WeightSet> set;
  auto ws = ramp(1000);
  const HostTensor weights[] = {host(ws)};
  {
    auto engine = Engine::create(open_device(""), with_weight_program().spec);
    set = engine->prepare_weights(weights);
  }
  auto other = Engine::create(open_device(""), with_weight_program().spec);
  std::vector<float> ys(1000);
  const HostTensor tensors[] = {host(ys)};
  EXPECT_THROW(other->run(*set, {}, tensors, tensors), Error) << "the weights are another engine's";
}

TEST(RuntimeEngine, RefusesWrongTensors) {
  auto engine = Engine::create(open_device(""), Chain(10).builder.spec);
  std::vector<float> v(10), shorter(9);
  const HostTensor good[] = {host(v)}, bad[] = {host(shorter)}, null[] = {{nullptr, 40}};
  EXPECT_EQ(error_of(ErrorKind::kUser, [&] { engine->prepare_weights(bad); }),
            "[test] weight \"w\": got 36 bytes, want 40");
  EXPECT_EQ(error_of(ErrorKind::kUser, [&] { engine->prepare_weights({}); }),
            "[test] got 0 weights, want 1");
  const auto set = engine->prepare_weights(good);
  const auto run = [&](auto&& in, auto&& out) { engine->run(*set, {}, in, out); };
  EXPECT_EQ(error_of(ErrorKind::kUser, [&] { run(bad, good); }),
            "[test] input \"x\": got 36 bytes, want 40");
  EXPECT_EQ(error_of(ErrorKind::kUser, [&] { run(good, bad); }),
            "[test] output \"y\": got 36 bytes, want 40");
  EXPECT_EQ(error_of(ErrorKind::kUser, [&] { run(null, good); }),
            "[test] input \"x\": got no memory, want 40");
  EXPECT_EQ(
      error_of(ErrorKind::kUser,
               [&] { run(std::span<const HostTensor>(), std::span<const HostTensor>(good)); }),
      "[test] got 0 inputs, want 1");
  run(good, good);  // and it still works
}

TEST(RuntimeEngine, RefusesSymbolsOutOfRange) {
  auto engine = Engine::create(open_device(""), tenfold(2, 50).spec);
  const auto set = engine->prepare_weights({});
  const int64_t symbols[] = {51};
  EXPECT_EQ(error_of(ErrorKind::kUser, [&] { engine->run(*set, symbols, {}, {}); }),
            "[test] symbol n: got 51, want 2 to 50");
}

TEST(RuntimeEngine, RefusesAnotherKindOfDevice) {
  SpecBuilder b = tenfold(1, 2);
  b.spec.runs_on = "a device that nobody has";
  const std::string text =
      error_of(ErrorKind::kUser, [&] { Engine::create(open_device(""), b.spec); });
  EXPECT_NE(text.find("a device that nobody has"), std::string::npos) << text;
}

TEST(RuntimeEngine, WarnsWhereItWasTunedForAnotherDevice) {
  SpecBuilder b = tenfold(1, 8);
  b.spec.tuned_for = "another driver";
  testing::internal::CaptureStderr();
  auto engine = Engine::create(open_device(""), b.spec);
  const std::string text = testing::internal::GetCapturedStderr();
  const DeviceProfile& here = profile(*engine->device());
  EXPECT_NE(text.find("was tuned for another driver and runs on " + here.name + ", driver " +
                      here.driver_name + " " + here.driver_info + ": its results are right"),
            std::string::npos)
      << text;
  expect_tenfold(*engine, *engine->prepare_weights({}), 3, 0);
}

TEST(RuntimeEngine, UploadsManyAndLargeWeights) {
  // Together more than the staging buffer holds, so that pieces are cut.
  const int64_t n = 3'000'001;
  SpecBuilder b(n);
  const uint32_t x = b.input("x");
  uint32_t last = x;
  for (int i = 0; i < 4; ++i) {
    const uint32_t w = b.weight("w" + std::to_string(i));
    const uint32_t t = i < 3 ? b.arena("t" + std::to_string(i)) : b.output("y");
    b.step("add" + std::to_string(i), t, last, w, 1);
    last = t;
  }
  auto engine = Engine::create(open_device(""), b.spec);
  std::vector<std::vector<float>> data;
  std::vector<HostTensor> weights;
  for (int i = 0; i < 4; ++i) data.push_back(ramp(n, static_cast<float>(100 * i)));
  for (auto& w : data) weights.push_back(host(w));
  std::vector<float> xs(n, 1), ys(n);
  const HostTensor inputs[] = {host(xs)}, outputs[] = {host(ys)};
  engine->run(*engine->prepare_weights(weights), {}, inputs, outputs);
  for (size_t i = 0; i < ys.size(); ++i) {
    ASSERT_EQ(ys[i], 1 + data[0][i] + data[1][i] + data[2][i] + data[3][i]) << i;
  }
}

TEST(RuntimeEngine, TakesMisalignedWeights) {
  auto engine = Engine::create(open_device(""), Chain(257).builder.spec);
  std::vector<float> memory = ramp(258, 4), xs(257, 1), ys(257);
  const HostTensor weights[] = {{memory.data() + 1, 257 * 4}}, inputs[] = {host(xs)},
                   outputs[] = {host(ys)};
  engine->run(*engine->prepare_weights(weights), {}, inputs, outputs);
  for (size_t i = 0; i < ys.size(); ++i) ASSERT_EQ(ys[i], (2 + memory[i + 1]) * 3 + 1);
}

TEST(RuntimeEngine, OutOfMemoryIsADeviceErrorWithSizes) {
  SpecBuilder b(16);
  const uint32_t x = b.input("x"), t = b.arena("t"), y = b.output("y");
  b.spec.symbols = {{"n", 1, 1, kUnbounded}};
  b.spec.inputs.push_back({"m", DType::kU8, {Expr::symbol(0)}, {1}});
  b.spec.buffers.push_back({BufferKind::kInput, 1, Expr::symbol(0), "m"});
  b.spec.buffers[t].size_bytes = Expr::symbol(0) * (int64_t{1} << 30);
  b.step("first", t, x, x, 2).step("second", y, t, x, 3);
  auto engine = Engine::create(open_device(""), b.spec);
  const auto set = engine->prepare_weights({});
  std::vector<float> xs(16, 1), ys(16);
  std::vector<char> m(1 << 16);
  const auto run = [&](int64_t n) {
    const int64_t symbols[] = {n};
    const HostTensor inputs[] = {host(xs), {m.data(), n}}, outputs[] = {host(ys)};
    engine->run(*set, symbols, inputs, outputs);
  };
  const std::string text = error_of(ErrorKind::kDevice, [&] { run(1 << 16); });
  EXPECT_NE(text.find("has no 6710886"), std::string::npos) << text;  // MiB
  run(1);                                                             // recoverable
  EXPECT_EQ(ys[3], 10);
}

TEST(RuntimeEngine, DeviceLossIsADeviceErrorAndTheDeviceCanBeOpenedAgain) {
  const auto device = open_device("");
  auto engine = Engine::create(device, tenfold(1, 8).spec);
  const auto set = engine->prepare_weights({});
  expect_tenfold(*engine, *set, 3, 0);
  device->mark_lost();
  std::vector<float> v(3);
  const HostTensor tensors[] = {host(v)};
  const int64_t symbols[] = {3};
  const std::string text =
      error_of(ErrorKind::kDevice, [&] { engine->run(*set, symbols, tensors, tensors); });
  EXPECT_NE(text.find("was lost"), std::string::npos) << text;
  const auto fresh = open_device("");
  EXPECT_NE(fresh, device);
  auto again = Engine::create(fresh, tenfold(1, 8).spec);
  expect_tenfold(*again, *again->prepare_weights({}), 3, 0);
}

TEST(RuntimeEngine, AnEngineWithoutDispatchesDoesNothing) {
  SpecBuilder b(4);
  auto engine = Engine::create(open_device(""), b.spec);
  engine->run(*engine->prepare_weights({}), {}, {}, {});
}

}  // namespace
}  // namespace tv
