// Tensors that stay on the device between calls; RuntimeProcess runs these staged, too.

#include "runtime/engine/device_tensor.h"
#include "tests/cpp/kit/runtime_fixture.h"

namespace tv {
namespace {

using namespace test;  // NOLINT

constexpr size_t kCount = 257;
constexpr int64_t kBytes = kCount * sizeof(float);

/// y = a * 2 + b.
std::shared_ptr<Engine> doubling() {
  SpecBuilder b{Expr(static_cast<int64_t>(kCount))};
  const uint32_t a = b.input("a"), c = b.input("b"), y = b.output("y");
  b.step("step", y, a, c, 2);
  return Engine::create(open_device(""), b.spec);
}

/// a = a * 2 + b, in place, and y = a then.
std::shared_ptr<Engine> doubling_in_place(std::shared_ptr<Device> device) {
  SpecBuilder b{Expr(static_cast<int64_t>(kCount))};
  const uint32_t a = b.input("a"), c = b.input("b"), zero = b.input("zero"), y = b.output("y");
  b.step("step", a, a, c, 2);
  b.step("out", y, a, zero, 1);
  b.spec.inputs[0].written = true;
  return Engine::create(std::move(device), b.spec);
}

TEST(RuntimeEngine, ADeviceTensorGoesFromCallToCall) {
  const auto engine = doubling();
  const auto set = engine->prepare_weights({});
  DeviceTensor state(engine->device(), kBytes), next(engine->device(), kBytes);
  auto added = ramp(kCount, 3);
  for (int i = 0; i < 3; ++i) {  // state: 0, b, 3 b
    const HostTensor inputs[] = {state.tensor(), host(added)}, outputs[] = {next.tensor()};
    engine->run(*set, {}, inputs, outputs);
    std::swap(state, next);
  }
  std::vector<float> read(kCount, -1), nothing(kCount, 0);
  const HostTensor inputs[] = {state.tensor(), host(nothing)}, outputs[] = {host(read)};
  engine->run(*set, {}, inputs, outputs);
  for (size_t i = 0; i < kCount; ++i) ASSERT_EQ(read[i], 14 * added[i]) << i;
}

TEST(RuntimeEngine, ADeviceTensorBeginsWithZeros) {
  const auto engine = doubling();
  const auto set = engine->prepare_weights({});
  const DeviceTensor state(engine->device(), kBytes);
  std::vector<float> read(kCount, -1);
  const HostTensor inputs[] = {state.tensor(), state.tensor()}, outputs[] = {host(read)};
  engine->run(*set, {}, inputs, outputs);
  EXPECT_EQ(read, std::vector<float>(kCount, 0));
}

TEST(RuntimeEngine, ADeviceTensorIsClearedWhereItLies) {
  for (const bool staged : {false, true}) {
    PhysicalDevice physical = Instance::get().devices().back();
    if (staged) physical.profile.host_pointers = false;
    const auto device = std::make_shared<Device>(physical);
    const auto engine = doubling_in_place(device);
    const auto set = engine->prepare_weights({});
    DeviceTensor state(device, kBytes);
    auto added = ramp(kCount, 3);
    std::vector<float> zero(kCount, 0), y(kCount, -1);
    const HostTensor inputs[] = {state.tensor(), host(added), host(zero)}, outputs[] = {host(y)};
    engine->run(*set, {}, inputs, outputs, 3);
    for (size_t i = 0; i < kCount; ++i) ASSERT_EQ(y[i], 7 * added[i]) << i;
    state.clear();
    engine->run(*set, {}, inputs, outputs);
    EXPECT_EQ(y, added);
    EXPECT_EQ(engine->stats().recordings, 2u) << "of three runs and of one, on the same memory";
  }
}

TEST(RuntimeEngine, ADeviceTensorMayBeInputAndOutput) {
  const auto engine = doubling();
  const auto set = engine->prepare_weights({});
  DeviceTensor state(engine->device(), kBytes);
  auto added = ramp(kCount, 1);
  const HostTensor inputs[] = {state.tensor(), host(added)}, outputs[] = {state.tensor()};
  for (int i = 0; i < 2; ++i) engine->run(*set, {}, inputs, outputs);
  std::vector<float> read(kCount, -1), nothing(kCount, 0);
  const HostTensor last[] = {state.tensor(), host(nothing)}, to[] = {host(read)};
  engine->run(*set, {}, last, to);
  for (size_t i = 0; i < kCount; ++i) ASSERT_EQ(read[i], 6 * added[i]) << i;
}

/// Runs it by `times` in each call; the state, and what the outputs were.
std::pair<std::vector<float>, std::vector<float>> doubled(const std::shared_ptr<Engine>& engine,
                                                          std::initializer_list<uint32_t> times) {
  const auto set = engine->prepare_weights({});
  auto state = ramp(kCount, 5), added = ramp(kCount, 3);
  std::vector<float> zero(kCount, 0), y(kCount, -1);
  const HostTensor inputs[] = {host(state), host(added), host(zero)}, outputs[] = {host(y)};
  for (const uint32_t each : times) engine->run(*set, {}, inputs, outputs, each);
  return {state, y};
}

TEST(RuntimeEngine, SeveralRunsInOneSubmission) {
  for (const bool staged : {false, true}) {
    PhysicalDevice physical = Instance::get().devices().back();
    if (staged) physical.profile.host_pointers = false;
    const auto device = std::make_shared<Device>(physical);
    const auto engine = doubling_in_place(device);
    const auto want = doubled(engine, {1, 1, 1, 1, 1});
    EXPECT_EQ(want.first, want.second);
    EXPECT_EQ(engine->stats().submissions, 5u);
    EXPECT_EQ(doubled(engine, {5}), want);
    EXPECT_EQ(engine->stats().submissions, 6u);
    EXPECT_EQ(doubled(engine, {2, 3}), want);
    EXPECT_EQ(engine->stats().submissions, 8u);
    for (const int64_t limit_us : {1, 60}) {  // each dispatch alone; some together
      const ScopedModes scoped({.check_hazards = true, .submit_us = limit_us});
      EXPECT_EQ(doubled(engine, {5}), want) << limit_us;
      if (limit_us == 1) {
        EXPECT_EQ(impl(engine).submissions_of_last_recording(), 10u);
      }
    }
  }
}

TEST(RuntimeEngine, SeveralRunsOnADeviceTensor) {
  const auto engine = doubling_in_place(open_device(""));
  const auto set = engine->prepare_weights({});
  const DeviceTensor state(engine->device(), kBytes);
  auto added = ramp(kCount, 1);
  std::vector<float> zero(kCount, 0), y(kCount, -1);
  const HostTensor inputs[] = {state.tensor(), host(added), host(zero)}, outputs[] = {host(y)};
  engine->run(*set, {}, inputs, outputs, 3);
  engine->run(*set, {}, inputs, outputs, 1);
  for (size_t i = 0; i < kCount; ++i) ASSERT_EQ(y[i], 15 * added[i]) << i;
}

TEST(RuntimeEngine, ADeviceTensorOfAnotherSizeIsRefused) {
  const auto engine = doubling();
  const auto set = engine->prepare_weights({});
  const DeviceTensor state(engine->device(), kBytes - 4);
  auto added = ramp(kCount);
  std::vector<float> read(kCount);
  const HostTensor inputs[] = {state.tensor(), host(added)}, outputs[] = {host(read)};
  EXPECT_NE(error_of(ErrorKind::kUser, [&] { engine->run(*set, {}, inputs, outputs); })
                .find("input \"a\": got 1024 bytes, want 1028"),
            std::string::npos);
}

TEST(RuntimeEngine, ALostCallMayHaveWrittenADeviceTensor) {
  PhysicalDevice physical = Instance::get().devices().back();
  physical.profile.host_pointers = false;
  const auto device = std::make_shared<Device>(physical);
  SpecBuilder b{Expr(static_cast<int64_t>(kCount))};
  const uint32_t a = b.input("a"), c = b.input("b");
  b.step("step", a, a, c, 2);
  b.spec.inputs[0].written = true;
  const auto engine = Engine::create(device, b.spec);
  const auto set = engine->prepare_weights({});
  const DeviceTensor state(device, kBytes);
  auto added = ramp(kCount), own = ramp(kCount);
  const HostTensor kept[] = {state.tensor(), host(added)}, copied[] = {host(own), host(added)};
  engine->run(*set, {}, kept, {});
  device->mark_lost();
  const auto says = [&](std::span<const HostTensor> inputs) {
    const std::string text =
        error_of(ErrorKind::kDevice, [&] { engine->run(*set, {}, inputs, {}); });
    return text.find("writes over a, which may hold a part of the result") != std::string::npos;
  };
  EXPECT_TRUE(says(kept));
  EXPECT_FALSE(says(copied)) << "a copy of it is what was written";
}

}  // namespace
}  // namespace tv
