// Timings of programs: what else the device does meanwhile is seen.

#include <atomic>
#include <thread>

#include "runtime/commands/trial.h"
#include "tests/cpp/kit/runtime_fixture.h"

namespace tv {
namespace {

using namespace test;  // NOLINT

constexpr int64_t kTrialFloats = 4096;

/// y = x · 2 + x, with all buffers in memory of the trial's own.
EngineSpec doubled() {
  SpecBuilder b(Expr{kTrialFloats});
  const uint32_t x = b.arena("x"), y = b.arena("y");
  b.step("step", y, x, x, 2);
  return b.spec;
}

class TrialTest : public testing::Test {
 protected:
  TrialTest()
      : device_(open_device("")),
        memory_(device_, 2 * kTrialFloats * 4),
        trial_(device_, doubled()) {
    const uint64_t addresses[] = {memory_.address(), memory_.address() + kTrialFloats * 4};
    trial_.bind({}, addresses);
  }

  std::shared_ptr<Device> device_;
  TrialMemory memory_;
  Trial trial_;
};

TEST_F(TrialTest, AloneOnTheDeviceNothingDisturbs) {
  for (int i = 0; i < 20; ++i) {
    EXPECT_GT(trial_.run(3), 0);
    EXPECT_FALSE(trial_.disturbed());
    trial_.run_steps();
    EXPECT_FALSE(trial_.disturbed());
  }
}

TEST_F(TrialTest, AnEngineThatIsCalledMeanwhileDisturbs) {
  SpecBuilder b(Expr{kTrialFloats});
  const uint32_t x = b.input("x"), y = b.output("y");
  b.step("step", y, x, x, 2);
  const auto engine = Engine::create(device_, b.spec);
  const auto weights = engine->prepare_weights({});
  std::atomic<bool> ends = false;
  std::thread calls([&] {
    std::vector<float> in = ramp(kTrialFloats), out(kTrialFloats);
    while (!ends) engine->run(*weights, {}, std::vector{host(in)}, std::vector{host(out)});
  });
  // A run may slip between two calls; of so many one does not.
  bool disturbed = false, steps_disturbed = false;
  for (int i = 0; i < 100000 && !(disturbed && steps_disturbed); ++i) {
    trial_.run(10);
    disturbed = disturbed || trial_.disturbed();
    trial_.run_steps();
    steps_disturbed = steps_disturbed || trial_.disturbed();
  }
  ends = true;
  calls.join();
  EXPECT_TRUE(disturbed);
  EXPECT_TRUE(steps_disturbed);
  trial_.run(1);
  EXPECT_FALSE(trial_.disturbed()) << "of the last run alone";
}

}  // namespace
}  // namespace tv
