// Decisions between graphs follow what the tuner measured, and what its cache holds.

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>

#include "converters/kit/steps.h"
#include "csrc/compile/compile.h"
#include "csrc/tuner/tuner.h"
#include "tests/cpp/kit/sample_graphs.h"

namespace tv {
namespace {

using Times = std::function<double(const std::string& problem)>;

/// Every candidate of a problem takes what `times` says of its text.
class TableBench : public Bench {
 public:
  explicit TableBench(Times times) : times_(std::move(times)) {}

  const DeviceProfile& profile() const override { return device_; }
  std::unique_ptr<BenchTrials> open(const TacticProblem& problem,
                                    std::map<size_t, TacticProgram>) override {
    return std::make_unique<Trials>(times_(problem.text));
  }
  bool recover() override { return false; }

 private:
  class Trials : public BenchTrials {
   public:
    explicit Trials(double us) : us_(us) {}
    std::map<size_t, std::string> prepare(const std::vector<size_t>&) override { return {}; }
    double predict_us(size_t) override { return us_; }
    double time_us(size_t, int) override { return us_; }
    std::vector<float> step_us(size_t) override { return {static_cast<float>(us_)}; }
    std::optional<std::string> difference(size_t, size_t) override { return ""; }

   private:
    double us_;
  };

  const DeviceProfile device_ = DeviceProfile::builtin_default();
  Times times_;
};

/// sum(exp(x)) over rows: the exponential can be computed while the sum reads.
Graph summed_exponential() {
  Graph graph;
  const Shape shape = {64, 96};
  const ValueId x = graph.add_value({.name = "x",
                                     .dtype = DType::kF32,
                                     .shape = shape,
                                     .kind = ValueKind::kInput,
                                     .view = std::nullopt});
  graph.inputs = {x};
  Node exp;
  exp.op = "aten::exp";
  exp.name = "exp";
  exp.args = {tensor_arg("self", x)};
  const ValueId e = graph.add_output(exp, DType::kF32, shape);
  Node sum;
  sum.op = "aten::sum.dim_IntList";
  sum.name = "sum";
  sum.args = {tensor_arg("self", e), attr_arg("dim", ints({1})), attr_arg("keepdim", false),
              attr_arg("dtype", std::monostate{})};
  const ValueId y = graph.add_output(sum, DType::kF32, {64});
  graph.nodes = {exp, sum};
  graph.outputs = {{.value = y, .name = "y", .strides = {}}};
  return graph;
}

class MeasuredGraphs : public testing::Test {
 protected:
  void SetUp() override {
    path_ = (std::filesystem::temp_directory_path() /
             ("tv_graphs_" + std::to_string(::getpid()) + ".json"))
                .string();
    std::filesystem::remove(path_);
    reset_tuner_stats();
  }
  void TearDown() override { std::filesystem::remove(path_); }

  /// Dispatches of the engine that a process makes whose device takes these times.
  size_t dispatches(const Times& times, int64_t level = 4) {
    const auto tuner = make_tuner(std::make_unique<TableBench>(times),
                                  std::make_shared<TimingCache>(path_), {.level = level});
    Settings settings;
    settings.optimization_level = level;
    return compile(summed_exponential(), settings, DeviceProfile::builtin_default(), nullptr,
                   tuner.get())
        .dispatches.size();
  }

  std::string text() const {
    std::ostringstream text;
    text << std::ifstream(path_).rdbuf();
    return text.str();
  }

  std::string path_;
};

Times head_takes(double us) {
  return [us](const std::string& problem) {
    return problem.find(" prologue ") != std::string::npos ? us : 4.0;
  };
}

TEST_F(MeasuredGraphs, AHeadIsFusedWhereThatIsFaster) { EXPECT_EQ(dispatches(head_takes(5)), 1U); }

TEST_F(MeasuredGraphs, AHeadIsALaunchOfItsOwnWhereThatIsFaster) {
  EXPECT_EQ(dispatches(head_takes(10)), 2U);
}

TEST_F(MeasuredGraphs, LowLevelsDecideByRule) {
  for (const int64_t level : {1, 2, 3}) EXPECT_EQ(dispatches(head_takes(10), level), 1U) << level;
}

/// What every operator computes before and after itself can be compared with launches apart, or is
/// known to be part of it.
TEST_F(MeasuredGraphs, EveryExampleCompiles) {
  const auto tuner = make_tuner(std::make_unique<TableBench>(head_takes(10)),
                                std::make_shared<TimingCache>(path_), {.level = 5});
  Settings settings;
  settings.optimization_level = 5;
  for (const auto& [op, converter] : test::operators_with_examples()) {
    if (op.starts_with("test::")) continue;
    for (const Graph& graph : converter.examples()) {
      EXPECT_NO_THROW(
          compile(graph, settings, DeviceProfile::builtin_default(), nullptr, tuner.get()))
          << op;
    }
  }
}

TEST_F(MeasuredGraphs, WhatTheCacheHoldsIsNotTimedAgainAndDecidesAsBefore) {
  EXPECT_EQ(dispatches(head_takes(10)), 2U);
  EXPECT_GT(tuner_stats().timed, 0U);
  reset_tuner_stats();
  EXPECT_EQ(dispatches(head_takes(1)), 2U) << "the device is not asked";
  EXPECT_EQ(tuner_stats().timed, 0U);
}

TEST_F(MeasuredGraphs, TimingsInTheFileDecide) {
  EXPECT_EQ(dispatches(head_takes(10)), 2U);
  std::string file = text();
  size_t changed = 0;
  for (size_t at = 0; (at = file.find("\"time_us\": 10", at)) != std::string::npos; ++changed) {
    file.replace(at, std::string("\"time_us\": 10").size(), "\"time_us\": 6");
  }
  ASSERT_GT(changed, 0U) << file;
  std::ofstream(path_) << file;
  reset_tuner_stats();
  EXPECT_EQ(dispatches(head_takes(10)), 1U);
  EXPECT_EQ(tuner_stats().timed, 0U);
}

TEST_F(MeasuredGraphs, AComparisonTriesFewCandidates) {
  dispatches(head_takes(10));
  const std::string file = text();
  size_t tried = 0;
  for (size_t at = 0; (at = file.find("\"time_us\": 10", at)) != std::string::npos; ++at) ++tried;
  EXPECT_EQ(tried, 2U) << "of the fused sum, which is not built" << file;
}

}  // namespace
}  // namespace tv
