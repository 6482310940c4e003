// Pipelines that engines share, on devices of the tests' own.

#include <set>
#include <thread>

#include "runtime/commands/pipelines.h"
#include "runtime/commands/trial.h"
#include "runtime/vulkan/device_lost.h"
#include "tests/cpp/kit/runtime_fixture.h"

namespace tv {
namespace {

using namespace test;  // NOLINT

constexpr int64_t kFloats = 1000;

/// y = x · 3
EngineSpec scaled() {
  SpecBuilder b(Expr{kFloats});
  const uint32_t x = b.input("x"), y = b.output("y");
  b.step("scale", y, x, x, 2);
  return b.spec;
}

/// A dispatch each of kMulAdd and of kMulAddBlock: y = x · 12
EngineSpec two_kernels() {
  SpecBuilder b(Expr{kFloats});
  b.spec.modules.push_back(compile(kMulAddBlock));
  b.spec.pipelines.push_back({.module = 1, .param_block = true});
  const uint32_t x = b.input("x"), t = b.arena("t"), y = b.output("y");
  b.step("first", t, x, x, 2).step("second", y, t, t, 3);
  b.spec.dispatches[1].pipeline = 1;
  return b.spec;
}

void expect_times(Engine& engine, float factor) {
  const auto weights = engine.prepare_weights({});
  std::vector<float> xs = ramp(kFloats), ys(kFloats);
  engine.run(*weights, {}, std::vector{host(xs)}, std::vector{host(ys)});
  for (size_t i = 0; i < xs.size(); ++i) ASSERT_EQ(ys[i], xs[i] * factor) << i;
}

/// Each test leaves a device, under the validation layer without a message.
class Pipelines : public testing::Test {
 protected:
  Pipelines()
      : messages_(validation_log().count),
        device_(std::make_shared<Device>(open_device("")->physical())) {}
  ~Pipelines() override {
    device_.reset();
    const ValidationLog log = validation_log();
    EXPECT_EQ(log.count, messages_) << (log.messages.empty() ? "" : log.messages.back());
  }

  std::vector<VkPipeline> made(const EngineSpec& spec, const GuardPlan& guard = {}) {
    std::vector<VkPipeline> handles;
    for (const SharedPipeline& p : create_pipelines(*device_, spec, guard)) {
      handles.push_back(p.get());
    }
    return handles;
  }
  void expect_counts(size_t used, size_t unused) {
    EXPECT_EQ(device_->pipelines().counts().used, used);
    EXPECT_EQ(device_->pipelines().counts().unused, unused);
  }

  uint64_t messages_;
  std::shared_ptr<Device> device_;
};

TEST_F(Pipelines, EnginesShareThem) {
  const auto one = Engine::create(device_, two_kernels());
  const auto two = Engine::create(device_, two_kernels());
  expect_counts(2, 0);
  EXPECT_EQ(impl(one).parts().pipelines[1].get(), impl(two).parts().pipelines[1].get());
  const auto other = Engine::create(device_, scaled());  // one of the same kernels
  expect_counts(2, 0);
  expect_times(*one, 12);
  expect_times(*two, 12);
  expect_times(*other, 3);
}

TEST_F(Pipelines, OneOfAnEngineThatIsNamedTwiceIsMadeOnce) {
  EngineSpec spec = two_kernels();
  spec.modules[1] = spec.modules[0];
  spec.pipelines[1].param_block = false;
  const auto engine = Engine::create(device_, spec);
  expect_counts(1, 0);
  expect_times(*engine, 12);
}

TEST_F(Pipelines, LargeKernelsAreMadeFirst) {
  EngineSpec spec = scaled();
  spec.modules = {std::vector<uint32_t>(3), std::vector<uint32_t>(9), std::vector<uint32_t>(3)};
  spec.pipelines = {{.module = 0}, {.module = 1}, {.module = 2}, {.module = 1}};
  EXPECT_EQ(order_of_creation(spec), (std::vector<uint32_t>{1, 3, 0, 2}));
}

TEST_F(Pipelines, WhatTheyFollowFromTellsThemApart) {
  const EngineSpec spec = scaled();
  std::vector<EngineSpec> others(5, spec);
  others[0].modules = {compile(kMulAddBlock)};
  others[1].pipelines[0].spec_constants = {7};
  others[2].pipelines[0].spec_constants = {7, 0};
  others[3].pipelines[0].subgroup_size = profile(*device_).subgroup_size;
  others[4].pipelines[0].full_subgroups = true;
  std::set<VkPipeline> handles = {made(spec)[0]};
  for (const EngineSpec& other : others) {
    EXPECT_TRUE(handles.insert(made(other)[0]).second);
    EXPECT_FALSE(handles.insert(made(other)[0]).second);
  }
  const GuardPlan guard = plan_guards(spec, 1000), longer = plan_guards(spec, 1001);
  EXPECT_TRUE(handles.insert(made(spec, guard)[0]).second);
  EXPECT_TRUE(handles.insert(made(spec, longer)[0]).second);
  EXPECT_FALSE(handles.insert(made(spec, guard)[0]).second);
  GuardPlan wider = guard;
  ++wider.ranges[0];
  EXPECT_TRUE(handles.insert(made(spec, wider)[0]).second);
  expect_counts(0, handles.size());
  EXPECT_EQ(made(spec)[0], made(spec)[0]);
}

TEST_F(Pipelines, AnEngineThatIsOpenedAgainFindsThemWarm) {
  const bool cpu = profile(*device_).is_cpu();
  auto engine = Engine::create(device_, two_kernels());
  EXPECT_EQ(device_->submitted() > 0, cpu);  // what warmed them
  const VkPipeline first = impl(engine).parts().pipelines[0].get();
  expect_times(*engine, 12);
  engine.reset();
  expect_counts(0, 2);
  const uint64_t submitted = device_->submitted();
  engine = Engine::create(device_, two_kernels());
  EXPECT_EQ(device_->submitted(), submitted);
  expect_counts(2, 0);
  EXPECT_EQ(impl(engine).parts().pipelines[0].get(), first);
  EXPECT_EQ(impl(engine).parts().pipelines[0].warm(), cpu);
  expect_times(*engine, 12);
}

TEST_F(Pipelines, CheckedEnginesShareThoseOfCheckedOnes) {
  const auto plain = Engine::create(device_, scaled());
  const auto one = Engine::create(device_, scaled(), {.check_addresses = true});
  const auto two = Engine::create(device_, scaled(), {.check_addresses = true});
  expect_counts(2, 0);
  expect_times(*plain, 3);
  expect_times(*two, 3);
}

TEST_F(Pipelines, ThreadsThatOpenOneNetworkShareThem) {
  std::vector<std::shared_ptr<Engine>> engines(4);
  std::vector<std::thread> threads;
  for (auto& engine : engines) {
    threads.emplace_back([&] {
      engine = Engine::create(device_, two_kernels());
      expect_times(*engine, 12);
    });
  }
  for (std::thread& t : threads) t.join();
  expect_counts(2, 0);
}

TEST_F(Pipelines, ATrialKeepsNone) {
  {
    const Trial trial(device_, two_kernels());
    const auto engine = Engine::create(device_, scaled());
    expect_counts(2, 0);
  }
  expect_counts(0, 1);  // the engine's
}

TEST_F(Pipelines, EnginesHaveTheirOwnWhereTestsWantThat) {
  DebugModes modes = debug_modes();
  modes.own_pipelines = true;
  const ScopedModes scoped(modes);
  auto one = Engine::create(device_, scaled()), two = Engine::create(device_, scaled());
  EXPECT_NE(impl(one).parts().pipelines[0].get(), impl(two).parts().pipelines[0].get());
  expect_times(*two, 3);
  expect_counts(2, 0);
  one.reset();
  expect_counts(1, 0);
}

TEST_F(Pipelines, WhatCannotBeMadeIsSaidEachTime) {
  EngineSpec spec = scaled();
  spec.pipelines[0].subgroup_size = profile(*device_).max_subgroup_size * 2;
  for (int i = 0; i < 2; ++i) {
    const std::string said = error_of(ErrorKind::kUser, [&] { made(spec); });
    EXPECT_NE(said.find("[scale] needs subgroups of"), std::string::npos) << said;
  }
  expect_counts(0, 0);
}

TEST_F(Pipelines, ALostDeviceGivesNone) {
  const auto engine = Engine::create(device_, scaled());
  device_->mark_lost();
  EXPECT_THROW(Engine::create(device_, scaled()), DeviceLostError);
  const auto anew = std::make_shared<Device>(device_->physical());
  EXPECT_EQ(anew->pipelines().counts().used, 0U);
  const auto opened = Engine::create(anew, scaled());
  EXPECT_EQ(anew->pipelines().counts().used, 1U);
  expect_times(*opened, 3);
}

TEST_F(Pipelines, TheDeviceGoesAfterThoseThatNobodyUses) {
  for (uint32_t i = 0; i < 20; ++i) {
    EngineSpec spec = scaled();
    spec.pipelines[0].spec_constants = {i};
    made(spec);
  }
  expect_counts(0, 20);
  auto engine = Engine::create(device_, scaled());
  device_.reset();  // the engine holds it
  expect_times(*engine, 3);
  engine.reset();
}

}  // namespace
}  // namespace tv
