// Dynamic sizes: the tuner chooses for typical, small and large ones, and one engine has the
// tactics of all of them.

#include <gtest/gtest.h>

#include <filesystem>
#include <set>

#include "csrc/compile/compile.h"
#include "csrc/lowering/size_buckets.h"
#include "csrc/tuner/device_bench.h"
#include "csrc/tuner/tuner.h"
#include "runtime/engine/engine.h"
#include "runtime/vulkan/device.h"
#include "tests/cpp/kit/graph_eval.h"

namespace tv {
namespace {

int64_t at(const Expr& expr, int64_t value) { return expr.eval(std::vector<int64_t>{value}); }

TEST(SizeBuckets, PartitionTheRangeAroundTheTypicalSize) {
  const std::vector<Symbol> all = {{"n", 1, 32, 1024},      {"n", 1, 1, 64},    {"n", 2, 60, 64},
                                   {"n", 1, 8, kUnbounded}, {"n", 0, 16, 4096}, {"n", 5, 5, 20}};
  for (const Symbol& s : all) {
    const std::vector<Symbol> symbols = {s};
    const auto buckets = size_buckets(symbols, {0});
    EXPECT_GT(buckets.size(), 1u) << s.opt;
    EXPECT_EQ(buckets[0].point, s.opt);
    for (int64_t value = s.min; value <= std::min<int64_t>(s.max, 5000); ++value) {
      int64_t in = 0;
      for (const SizeBucket& b : buckets) {
        in += at(b.contains(symbols), value);
        EXPECT_EQ(at(b.contains(symbols), value), b.first <= value && value <= b.last ? 1 : 0);
      }
      EXPECT_EQ(in, 1) << value << " of " << s.min << ".." << s.max;
    }
    for (const SizeBucket& b : buckets) EXPECT_EQ(at(b.contains(symbols), b.point), 1);
  }
}

TEST(SizeBuckets, AreOneWhereSizesAreNearOrNotUsed) {
  EXPECT_EQ(size_buckets({{"n", 8, 16, 32}}, {0}).size(), 1u);
  EXPECT_EQ(size_buckets({{"n", 1, 16, 512}}, {}).size(), 1u);
  const std::vector<Symbol> two = {{"n", 1, 4, 16}, {"m", 1, 64, 4096}};
  EXPECT_EQ(size_buckets(two, {0, 1})[0].symbol, 1) << "the widest range";
  EXPECT_EQ(size_buckets(two, {0})[0].symbol, 0);
}

/// Takes the reference for small sizes, the first tactic for typical ones and the second for large
/// ones; `close`: and says that the first would be almost as fast everywhere.
class BySize : public CostModel {
 public:
  explicit BySize(bool close) : close_(close) {}
  TacticChoice choose(const TacticProblem& problem, size_t rule, const Progress&) override {
    std::vector<size_t> usable;
    for (size_t i = 0; i < problem.candidates.size(); ++i) {
      if (problem.candidates[i].refusal.empty()) usable.push_back(i);
    }
    const int64_t size = problem.symbols.at(0).opt;
    points.push_back(size);
    texts.insert(problem.text);
    TacticChoice choice{.candidate = size < 20 ? usable.back() : size < 100 ? rule : usable.at(1)};
    for (size_t i = 0; i < problem.candidates.size(); ++i) {
      choice.candidate_us.push_back(i == choice.candidate ? 10 : close_ ? 10.5 : 20);
    }
    return choice;
  }
  std::vector<int64_t> points;
  std::set<std::string> texts;

 private:
  const bool close_;
};

constexpr int64_t kRows = 24, kColumns = 40;

/// y = relu(x[n, 24] · w[24, 40]) for n from 1 to 600, typically 40.
Graph product_graph() {
  test::GraphMaker g;
  const Expr n = Expr::symbol(0);
  const ValueId x = g.input({n, kRows}), w = g.weight({kRows, kColumns});
  const ValueId y = g.op("tv::matmul", {tensor_arg("a", x), tensor_arg("b", w)}, {n, kColumns});
  g.output(g.pointwise("relu", {y}));
  g.graph.symbols = {{.name = "n", .min = 1, .opt = 40, .max = 600}};
  return g.graph;
}

/// Largest error at one size.
double error_at(const std::shared_ptr<Engine>& engine, int64_t n) {
  std::vector<float> x(static_cast<size_t>(n * kRows)), w(kRows * kColumns);
  std::vector<float> y(static_cast<size_t>(n * kColumns), NAN);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i * 7 % 23) - 11;
  for (size_t i = 0; i < w.size(); ++i) w[i] = static_cast<float>(i * 5 % 17) - 8;
  const auto tensor = [](std::vector<float>& v) {
    return HostTensor{v.data(), static_cast<int64_t>(v.size() * sizeof(float))};
  };
  const HostTensor weights[] = {tensor(w)}, inputs[] = {tensor(x)}, outputs[] = {tensor(y)};
  const std::vector<int64_t> symbols = {n};
  engine->run(*engine->prepare_weights(weights), symbols, inputs, outputs);
  double worst = 0;
  for (int64_t r = 0; r < n; ++r) {
    for (int64_t c = 0; c < kColumns; ++c) {
      double want = 0;
      for (int64_t k = 0; k < kRows; ++k) {
        want += double(x[static_cast<size_t>(r * kRows + k)]) *
                w[static_cast<size_t>(k * kColumns + c)];
      }
      const double off = std::abs(y[static_cast<size_t>(r * kColumns + c)] - std::max(want, 0.0));
      worst = std::isnan(off) ? INFINITY : std::max(worst, off);
    }
  }
  return worst;
}

std::set<std::string> tactics_at(const EngineSpec& spec, int64_t n) {
  std::set<std::string> tactics;
  for (const Dispatch& d : spec.dispatches) {
    if (at(d.grid[0], n) > 0) tactics.insert(d.tactic);
  }
  return tactics;
}

TEST(SizeBuckets, OneEngineHasTheTacticOfEachAndIsRightAtEverySize) {
  const auto device = open_device("");
  BySize costs(/*close=*/false);
  const EngineSpec spec = compile(product_graph(), {}, profile(*device), nullptr, &costs);
  EXPECT_EQ(costs.points, (std::vector<int64_t>{40, 6, 155}));
  EXPECT_EQ(costs.texts.size(), 3u) << "each is a problem of its own in the cache";
  std::set<std::string> seen;
  for (const int64_t n : {1, 6, 15, 16, 17, 40, 78, 79, 80, 155, 599, 600}) {
    const std::set<std::string> tactics = tactics_at(spec, n);
    EXPECT_EQ(tactics.size(), 1u) << n;
    seen.insert(tactics.begin(), tactics.end());
  }
  EXPECT_GE(seen.size(), 2u) << "CPU drivers have two tactics here, GPUs more";
  EXPECT_EQ(tactics_at(spec, 1), tactics_at(spec, 6));
  EXPECT_NE(tactics_at(spec, 1), tactics_at(spec, 40));
  EXPECT_NE(tactics_at(spec, 600), tactics_at(spec, 40));
  const auto engine = Engine::create(device, spec);
  for (const int64_t n : {40, 1, 600, 15, 16, 78, 79, 200}) {
    EXPECT_LE(error_at(engine, n), 1e-3) << n;
  }
}

TEST(SizeBuckets, ALittleSpeedIsNotWorthLaunchesOfItsOwn) {
  const auto device = open_device("");
  BySize costs(/*close=*/true);
  const EngineSpec spec = compile(product_graph(), {}, profile(*device), nullptr, &costs);
  for (const int64_t n : {1, 600}) EXPECT_EQ(tactics_at(spec, n), tactics_at(spec, 40));
}

TEST(SizeBuckets, AreNotTimedAtLowLevels) {
  const auto device = open_device("");
  BySize costs(/*close=*/false);
  Settings settings;
  settings.optimization_level = 2;
  compile(product_graph(), settings, profile(*device), nullptr, &costs);
  EXPECT_EQ(costs.points.size(), 1u);
}

TEST(SizeBuckets, TheTunerTimesEachOnceAndTheEngineIsRight) {
  const auto device = open_device("");
  const auto file = std::filesystem::temp_directory_path() /
                    ("tv_buckets_" + std::to_string(::getpid()) + ".json");
  Settings settings;
  settings.timing_cache_path = file.string();
  settings.optimization_level = 3;
  EngineSpec specs[2];
  for (EngineSpec& spec : specs) {
    reset_tuner_stats();
    const auto tuner =
        make_tuner(make_device_bench(device, settings),
                   std::make_shared<TimingCache>(settings.timing_cache_path), {.level = 3});
    spec = compile(product_graph(), settings, profile(*device), nullptr, tuner.get());
    EXPECT_EQ(tuner_stats().problems, 3u);
    EXPECT_EQ(tuner_stats().wrong, 0u);
  }
  EXPECT_EQ(tuner_stats().timed, 0u);
  EXPECT_EQ(specs[0], specs[1]);
  const auto engine = Engine::create(device, specs[1]);
  for (const int64_t n : {1, 40, 111, 600}) EXPECT_LE(error_at(engine, n), 1e-3) << n;
  std::filesystem::remove(file);
}

}  // namespace
}  // namespace tv
