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
