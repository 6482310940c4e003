// The tuner on the device: an operator whose tactics are wrong, slow, refused and right.

#include <gtest/gtest.h>

#include <filesystem>
#include <numeric>

#include "csrc/builder.h"
#include "csrc/compile/compile.h"
#include "csrc/tuner/device_bench.h"
#include "csrc/tuner/tuner.h"
#include "runtime/engine/engine.h"
#include "runtime/vulkan/device.h"
#include "tests/cpp/kit/graph_eval.h"
#include "tests/cpp/kit/sample_graphs.h"

namespace tv {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kCount = 1000003;

Step copy_step(const NodeContext& c, ValueId from, ValueId to, const Expr& elements) {
  const Expr numel = product(c.output().shape);
  return {.kernel = "copy",
          .defines = {{"UNROLL", "1"}},
          .operands = {src("src", from), dst("dst", to)},
          .params = {{.name = "numel", .value = numel}},
          .grid = Grid::flat_groups(ceil_div(elements, 64))};
}

/// y = self, by tactics of every kind. `wrong`: copies a sixteenth, but 128 elements at least.
void convert(const NodeContext& c, Builder& b) {
  const ValueId from = c.node.input("self"), to = c.node.outputs[0];
  const Expr numel = product(c.output().shape);
  const Tactic refused{.name = "refused", .refusal = "needs another device"};
  Tactic slow{.name = "slow"};
  ValueId last = from;
  for (int i = 0; i < 12; ++i) {
    const ValueId next = b.scratch("copy" + std::to_string(i), DType::kF32, c.output().shape);
    slow.steps.push_back(copy_step(c, last, next, numel));
    last = next;
  }
  slow.steps.push_back(copy_step(c, last, to, numel));
  const Tactic wrong{.name = "wrong",
                     .steps = {copy_step(c, from, to, max(floordiv(numel, 16), 128))}};
  Tactic fast{.name = "fast", .steps = {copy_step(c, from, to, numel)}};
  if (c.node.flag("only_wrong_is_fast")) fast.refusal = "by request";
  Tactic reference{.name = "reference", .steps = {copy_step(c, from, to, numel)}};
  const ValueId middle = b.scratch("middle", DType::kF32, c.output().shape);
  for (int i = 0; i < 4; ++i) {
    reference.steps.insert(reference.steps.begin(), copy_step(c, from, middle, numel));
  }
  b.emit({refused, slow, wrong, fast, reference});
}

const RegisterConverter choices{
    {.op = "test::choices", .convert = convert, .prologue_arg = "self", .epilogue = true}};

class DeviceTunerTest : public testing::Test {
 protected:
  void SetUp() override {
    dir_ =
        fs::temp_directory_path() / ("tv_device_tuner_" + std::to_string(::getpid()) + "_" +
                                     testing::UnitTest::GetInstance()->current_test_info()->name());
    fs::create_directories(dir_);
    settings_.timing_cache_path = (dir_ / "timings.json").string();
    settings_.optimization_level = 4;  // all four; 5 also compares other graphs
    device_ = open_device("");
    reset_tuner_stats();
  }
  void TearDown() override { fs::remove_all(dir_); }

  EngineSpec build(const Graph& graph) {
    const auto tuner = make_tuner(make_device_bench(device_, settings_),
                                  std::make_shared<TimingCache>(settings_.timing_cache_path),
                                  {.level = settings_.optimization_level});
    return compile(graph, settings_, profile(*device_), nullptr, tuner.get());
  }

  /// Builds until the wrong tactic, which is the fastest, was met and left: other processes may
  /// disturb a timing. It is never chosen. `wanted`: and until this tactic was.
  EngineSpec build_undisturbed(const Graph& graph, const std::string& wanted = "") {
    constexpr int kAttempts = 10;
    for (int i = 1;; ++i) {
      fs::remove(settings_.timing_cache_path);
      reset_tuner_stats();
      EngineSpec spec = build(graph);
      const std::string tactic = spec.dispatches.at(0).tactic;
      EXPECT_NE(tactic, "wrong");
      const bool met = tuner_stats().wrong == 1 && (wanted.empty() || tactic == wanted);
      if (met || i == kAttempts) return spec;
    }
  }

  fs::path dir_;
  Settings settings_;
  std::shared_ptr<Device> device_;
};

Graph one_node(const Expr& count, bool with_epilogue = false, bool only_wrong_is_fast = false) {
  test::GraphMaker g;
  ValueId y = g.op(
      "test::choices",
      {tensor_arg("self", g.input({count})), attr_arg("only_wrong_is_fast", only_wrong_is_fast)},
      {count});
  if (with_epilogue) y = g.pointwise("relu", {g.pointwise("add", {y, g.input({count})})});
  g.output(y);
  return g.graph;
}

TEST_F(DeviceTunerTest, TakesTheFastestThatIsRight) {
  const EngineSpec spec = build_undisturbed(one_node(kCount), "fast");
  ASSERT_EQ(spec.dispatches.size(), 1u);
  EXPECT_EQ(spec.dispatches[0].tactic, "fast");
  EXPECT_GT(spec.dispatches[0].time_us, 0);
  EXPECT_EQ(tuner_stats().timed, 4u);
  EXPECT_EQ(tuner_stats().wrong, 1u);
}

TEST_F(DeviceTunerTest, TheSecondBuildTimesNothingAndIsTheSame) {
  const EngineSpec first = build(one_node(kCount));
  reset_tuner_stats();
  const EngineSpec second = build(one_node(kCount));
  EXPECT_EQ(tuner_stats().timed, 0u);
  EXPECT_EQ(tuner_stats().checked, 0u);
  EXPECT_EQ(tuner_stats().cached, 4u);
  EXPECT_EQ(first, second);
}

TEST_F(DeviceTunerTest, FusedTailsAreTimedWithTheirNode) {
  const EngineSpec spec = build_undisturbed(one_node(kCount, /*with_epilogue=*/true), "fast");
  ASSERT_EQ(spec.dispatches.size(), 1u);
  EXPECT_EQ(spec.dispatches[0].tactic, "fast");
  EXPECT_EQ(spec.dispatches[0].operands.size(), 3u);
  reset_tuner_stats();
  build(one_node(kCount));
  EXPECT_EQ(tuner_stats().cached, 0u) << "with and without an epilogue are one problem";
}

TEST_F(DeviceTunerTest, SymbolicShapesAreTimedAtTheTypicalSizeAndCheckedAtTheEnds) {
  Graph graph = one_node(Expr::symbol(0), /*with_epilogue=*/false, /*only_wrong_is_fast=*/true);
  // The wrong tactic is right at the size that is timed, and wrong at the largest alone.
  graph.symbols = {{.name = "n", .min = 1, .opt = 128, .max = kCount}};
  settings_.optimization_level = 2;  // one problem: without buckets of sizes
  build_undisturbed(graph);
  EXPECT_EQ(tuner_stats().wrong, 1u);
}

TEST_F(DeviceTunerTest, TheTunedEngineComputesTheSame) {
  const EngineSpec spec = build(one_node(kCount, /*with_epilogue=*/true));
  const auto engine = Engine::create(device_, spec);
  std::vector<float> a(kCount), b(kCount), y(kCount);
  std::iota(a.begin(), a.end(), -100.0F);
  std::iota(b.begin(), b.end(), -3000.0F);
  const auto tensor = [](std::vector<float>& v) {
    return HostTensor{v.data(), static_cast<int64_t>(v.size() * sizeof(float))};
  };
  const HostTensor inputs[] = {tensor(a), tensor(b)}, outputs[] = {tensor(y)};
  engine->run(*engine->prepare_weights({}), {}, inputs, outputs);
  for (size_t i = 0; i < y.size(); ++i) ASSERT_EQ(y[i], std::max(a[i] + b[i], 0.0F)) << i;
}

TEST_F(DeviceTunerTest, LevelZeroAndOtherDevicesAreNotTuned) {
  settings_.optimization_level = 0;
  EXPECT_EQ(make_tuner(profile(*device_), settings_), nullptr);
  settings_.optimization_level = 3;
  EXPECT_NE(make_tuner(profile(*device_), settings_), nullptr);
  EXPECT_EQ(make_tuner(DeviceProfile::builtin_default(), settings_), nullptr);
  EXPECT_EQ(compile(one_node(kCount), settings_, profile(*device_)).dispatches.at(0).tactic,
            "slow");
}

TEST_F(DeviceTunerTest, ATacticThatSettingsNameIsTakenUntimed) {
  settings_.tactics = {"reference"};
  EXPECT_EQ(build(one_node(kCount)).dispatches.at(0).tactic, "reference");
  EXPECT_EQ(tuner_stats().timed, 0u);
}

/// Tactics of converters' examples are timed and none is found wrong: the comparison does not
/// cry wolf, and no kernel fails on random operands.
TEST_F(DeviceTunerTest, NoTacticOfTheExamplesIsWrong) {
  constexpr double kSeconds = 15;  // what is beyond is compiled by other tests
  const auto tuner =
      make_tuner(make_device_bench(device_, settings_), std::make_shared<TimingCache>(""),
                 {.level = 5, .seconds = kSeconds});
  for (const auto& [op, converter] : test::operators_with_examples()) {
    if (op.starts_with("test::")) continue;
    for (const Graph& graph : converter.examples()) {
      SCOPED_TRACE(op);
      const TunerStats before = tuner_stats();
      if (before.cut > 0) return;
      try {
        compile(graph, settings_, profile(*device_), nullptr, tuner.get());
      } catch (const std::exception& e) {
        ADD_FAILURE() << e.what();
      }
      const TunerStats stats = tuner_stats();
      EXPECT_EQ(stats.wrong + stats.lost + stats.refused,
                before.wrong + before.lost + before.refused);
    }
  }
  if (test::only_operator() != nullptr) return;  // it may have one tactic
  EXPECT_GT(tuner_stats().timed, 5u);
}

}  // namespace
}  // namespace tv
