// Kernels of the matrix units without a GPU: engines as the compiler makes them for an H200, run by
// the SPIR-V interpreter (tests/cpp/kit/interpreter) on sizes that no tile divides, against
// float64. Some of the problems, tactics and layouts of fragments each run, all with TV_TEST_ALL.

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <regex>
#include <set>

#include "csrc/converter.h"
#include "csrc/lowering/tactics.h"
#include "csrc/passes/layouts/choose_layouts.h"
#include "csrc/passes/simplify/canonicalise.h"
#include "tests/cpp/kit/interpreted_engine.h"
#include "tests/cpp/kit/matrix_engines.h"
#include "tests/cpp/kit/rotation.h"
#include "tests/cpp/kit/seed.h"
#include "workloads/conv_problem.h"
#include "workloads/gemm_problem.h"

namespace tv::test {
namespace {

using interpreter::kFragmentLayouts;

constexpr const char* kLayoutNames[] = {"as NVIDIA's", "scattered", "replicated"};

constexpr uint32_t kUnits[] = {132, 8, 1};

/// A problem and the settings that it is built with.
template <class Problem>
struct Trial {
  Problem problem;
  bool tf32 = false, checked = false;

  Settings settings() const { return {.disable_tf32 = !tf32, .check_addresses = checked}; }
  std::string str() const {
    return problem.str() + (tf32 ? ", TF32" : "") + (checked ? ", checked" : "");
  }
};

/// Each problem with each dtype, fp32 also where TF32 is allowed, and some with address checks.
template <class Problem>
std::vector<Trial<Problem>> trials_of(const std::vector<Problem>& problems) {
  std::vector<Trial<Problem>> list;
  for (size_t i = 0; i < problems.size(); ++i) {
    for (const DType dtype : {DType::kF16, DType::kBF16, DType::kF32}) {
      Problem p = problems[i];
      p.dtype = dtype;
      list.push_back({.problem = p, .checked = i % 4 == 1});
      if (dtype == DType::kF32) list.push_back({.problem = p, .tf32 = true});
    }
  }
  return list;
}

class MatrixInterpreted : public testing::Test {
 protected:
  void SetUp() override {
    cache_ =
        std::filesystem::temp_directory_path() / ("tv_interpreted_" + std::to_string(getpid()));
  }
  void TearDown() override { std::filesystem::remove_all(cache_); }

  /// Runs `most` trials, each with one of the tactics whose names are like `names`, all of them
  /// with some tactics each with TV_TEST_ALL, and gives their errors to `check`. A GPU of other
  /// size makes the converters offer other tiles.
  template <class Data, class Problem, class Check>
  void run(const std::vector<Trial<Problem>>& trials, const std::string& op,
           const std::string& names, size_t most, const Check& check) {
    size_t runs = 0;
    most = fewer_sanitised(most);
    const Turns met = turns(trials.size(), most, trials.size());
    for (const size_t t : met.order) {
      if (runs >= most && !tests_all()) break;
      const Trial<Problem>& trial = trials[t];
      const Graph graph = trial.problem.graph();
      profile_.compute_units = kUnits[(met.round + t) % std::size(kUnits)];
      auto tactics = interpreted_tactics(graph, op, trial.settings(), profile_);
      const std::regex wanted(names);
      std::erase_if(tactics,
                    [&](const CandidateTactic& o) { return !std::regex_match(o.name, wanted); });
      Data data(trial.problem, test_seed());
      const uint64_t round = met.round / std::size(kUnits);
      for (const size_t k : turns(tactics.size(), 1, 6, t, round).taken()) {
        const size_t l = (runs++ + test_seed()) % std::size(kFragmentLayouts);
        SCOPED_TRACE(trial.str() + ", " + tactics[k].name + ", " +
                     std::to_string(profile_.compute_units) + " compute units, fragments " +
                     kLayoutNames[l] + "; " + seed_text());
        const EngineSpec spec =
            engine_with_tactic(graph, op, tactics[k].name, trial.settings(), profile_, cache_);
        InterpretedEngine engine(spec, kFragmentLayouts[l]);
        const TensorCall call = [&](auto weights, auto inputs, auto outputs) {
          engine.run(weights, inputs, outputs);
        };
        ASSERT_NO_THROW(check(trial, data.run(call)));
      }
    }
    EXPECT_GE(runs, most) << "few trials have such a tactic";
  }

  std::filesystem::path cache_;
  DeviceProfile profile_ = h200_profile();
};

/// Sizes that no tile divides. Rows that begin at multiples of 16 bytes let tactics load chunks.
std::vector<Trial<GemmProblem>> products() {
  auto trials = trials_of<GemmProblem>({
      {.m = 33, .n = 47, .k = 50},
      {.m = 33, .n = 56, .k = 72},
      {.m = 1, .n = 89, .k = 40},
      {.m = 72, .n = 56, .k = 136, .constant_b = false},
      {.batch = 2, .m = 40, .n = 24, .k = 72, .constant_b = false, .shared_b = false},
      {.batch = 3, .m = 17, .n = 40, .k = 24},
      {.m = 40, .n = 72, .k = 56, .a_transposed = true, .b_transposed = true, .constant_b = false},
      {.m = 40, .n = 72, .k = 56, .a_transposed = true, .constant_b = false, .epilogue = true},
      {.m = 33, .n = 40, .k = 88, .b_transposed = true, .epilogue = true},
      {.m = 130, .n = 136, .k = 200},
      {.m = 16, .n = 40, .k = 776, .positive = 1},
      {.m = 64, .n = 64, .k = 128, .constant_b = false},
      {.m = 72, .n = 56, .k = 104, .constant_b = false, .spread = 12},
      {.m = 40, .n = 24, .k = 72, .spread = 50},
  });
  std::erase_if(trials, [](const auto& t) {  // whose products leave its range
    return t.problem.dtype == DType::kF16 && t.problem.spread > 0;
  });
  return trials;
}

/// The bounds of tests/cpp/converters/test_gemm.cpp.
void expect_close(const Trial<GemmProblem>& trial, const GemmData::Errors& errors) {
  const GemmProblem& p = trial.problem;
  const double products = trial.tf32 ? 0x1p-10 : 0x1p-20;
  const double rounding = p.dtype == DType::kF32 ? 0 : p.dtype == DType::kF16 ? 0x1p-10 : 0x1p-7;
  EXPECT_LE(errors.largest, rounding + products * std::sqrt(static_cast<double>(p.k)));
  if (p.dtype == DType::kF32) {
    EXPECT_LE(errors.products, products);
  }
}

class ProductsInterpreted : public MatrixInterpreted,
                            public testing::WithParamInterface<const char*> {};
INSTANTIATE_TEST_SUITE_P(Families, ProductsInterpreted,
                         testing::Values("matmul_shared_.*", "matmul_direct_.*", "matmul_rows_.*",
                                         "matmul_packed_.*"),
                         [](const auto& info) { return std::string(info.param).substr(7, 5); });

TEST_P(ProductsInterpreted, AreRightInEveryLayoutOfFragments) {
  run<GemmData>(products(), "tv::matmul", GetParam(), 3, expect_close);
}

TEST_F(MatrixInterpreted, WorkgroupsShareLongSums) {
  run<GemmData>(trials_of<GemmProblem>({{.m = 7, .n = 40, .k = 4104},
                                        {.m = 16, .n = 24, .k = 4104, .epilogue = true},
                                        {.m = 18, .n = 24, .k = 4096, .constant_b = false}}),
                "tv::matmul", "matmul_.*_b?f16.*_k[0-9]+", 1, expect_close);
}

TEST_F(MatrixInterpreted, ConvolutionsAreRightInEveryLayoutOfFragments) {
  const auto trials = trials_of<ConvProblem>({
      {.ic = 40, .h = 5, .w = 7, .oc = 40, .kh = 1, .kw = 1, .pad = 0},
      {.n = 2, .ic = 24, .h = 7, .w = 6, .oc = 33, .residual = true, .relu = true},
      {.ic = 37, .h = 9, .w = 7, .oc = 29, .stride = 2},
      {.n = 2, .ic = 3, .h = 11, .w = 13, .oc = 16, .kh = 5, .kw = 5, .stride = 2, .pad = 2},
      {.ic = 8, .h = 9, .w = 7, .oc = 24, .kh = 3, .kw = 2, .pad = 2, .dilation = 2},
      {.n = 2, .ic = 32, .h = 5, .w = 5, .oc = 48, .groups = 2},
      {.ic = 40, .h = 7, .w = 7, .oc = 24, .constant_weight = false},
      {.n = 2, .ic = 32, .h = 7, .w = 6, .oc = 40, .stride = 2, .residual = true, .last = true},
      {.ic = 48, .h = 5, .w = 5, .oc = 24, .kh = 1, .kw = 1, .pad = 0, .silu = true, .last = true},
      {.ic = 16, .h = 5, .w = 4, .oc = 24, .d = 3, .kd = 3},
      {.n = 2, .ic = 3, .h = 6, .w = 5, .oc = 16, .stride = 2, .d = 5, .kd = 2},
      {.ic = 24, .h = 4, .w = 5, .oc = 24, .d = 3, .kd = 2, .last = true},
      {.n = 2, .ic = 32, .h = 5, .w = 6, .oc = 40, .residual = true, .last = true, .y_last = true},
      {.ic = 40, .h = 7, .w = 5, .oc = 28, .stride = 2, .relu = true, .y_last = true},
      {.n = 3, .ic = 32, .h = 4, .w = 4, .oc = 72, .groups = 2, .silu = true, .y_last = true},
      {.ic = 16, .h = 5, .w = 4, .oc = 24, .d = 3, .kd = 2, .y_last = true},
  });
  run<ConvData>(trials, "aten::convolution", "conv_matrix_.*", 5,
                [](const Trial<ConvProblem>& trial, const ConvData::Errors& errors) {
                  const DType dtype = trial.problem.dtype;
                  const double limit = dtype == DType::kF16    ? 1e-3
                                       : dtype == DType::kBF16 ? 8e-3
                                       : trial.tf32            ? 0x1p-10
                                                               : 1e-6;
                  EXPECT_LE(errors.largest, limit);
                });
}

/// Numbers far apart: float16 pieces lose some, which is found, and those sums are made again. The
/// bounds of tests/cpp/converters/test_convolution.cpp.
TEST_F(MatrixInterpreted, ConvolutionsStayWithinAShareOfTheirTermsSizes) {
  auto trials = trials_of<ConvProblem>({
      {.ic = 40, .h = 5, .w = 7, .oc = 24, .spread = 40},
      {.ic = 32,
       .h = 6,
       .w = 6,
       .oc = 40,
       .stride = 2,
       .residual = true,
       .last = true,
       .spread = 12},
      {.ic = 3, .h = 9, .w = 9, .oc = 16, .kh = 5, .kw = 5, .stride = 2, .pad = 2, .spread = 40},
      {.n = 2, .ic = 40, .h = 5, .w = 6, .oc = 24, .last = true, .y_last = true, .spread = 40},
      {.ic = 40, .h = 5, .w = 6, .oc = 40, .residual = true, .y_last = true, .spread = 12},
  });
  std::erase_if(trials, [](const auto& t) { return t.problem.dtype != DType::kF32; });
  run<ConvData>(trials, "aten::convolution", "conv_matrix_.*", 2,
                [](const Trial<ConvProblem>& trial, const ConvData::Errors& errors) {
                  const double terms = std::sqrt(static_cast<double>(trial.problem.k()));
                  EXPECT_LE(errors.of_terms, trial.tf32 ? 0x1p-10 : (4 + 2 * terms) * 0x1p-24);
                });
}

TEST_F(MatrixInterpreted, WhatIsNotFiniteStaysWhereAConvolutionReadsIt) {
  std::vector<Trial<ConvProblem>> trials =
      trials_of<ConvProblem>({{.ic = 32, .h = 5, .w = 6, .oc = 24},
                              {.ic = 32, .h = 5, .w = 6, .oc = 24, .last = true},
                              {.ic = 32, .h = 5, .w = 6, .oc = 24, .last = true, .y_last = true}});
  const Turns met = turns(trials.size(), 1, trials.size());
  for (const size_t k : met.taken()) {
    const ConvProblem& p = trials[k].problem;
    const Settings settings = trials[k].settings();
    ConvData data(p);
    data.set_x(0, 5, 2, 3, k % 2 == 0 ? INFINITY : NAN);
    auto tactics = interpreted_tactics(p.graph(), "aten::convolution", settings, profile_);
    std::erase_if(tactics,
                  [](const CandidateTactic& t) { return !t.name.starts_with("conv_matrix_"); });
    for (const size_t t : turns(tactics.size(), 1, 6, k, met.round).taken()) {
      SCOPED_TRACE(trials[k].str() + ", " + tactics[t].name + "; " + seed_text());
      InterpretedEngine engine(engine_with_tactic(p.graph(), "aten::convolution", tactics[t].name,
                                                  settings, profile_, cache_),
                               kFragmentLayouts[drawn_for(t) % std::size(kFragmentLayouts)]);
      int64_t got = 0;
      ASSERT_NO_THROW(got = data.not_finite(TensorCall([&](auto weights, auto inputs, auto out) {
        engine.run(weights, inputs, out);
      })));
      EXPECT_EQ(got, p.oc * 9);
    }
  }
}

/// Pieces of fp32 cannot hold it: such sums are made again (exactly, needs_fallback).
TEST_F(MatrixInterpreted, WhatIsNotFiniteStaysInItsRowAndColumn) {
  const auto trials = trials_of<GemmProblem>(
      {{.m = 40, .n = 56, .k = 72}, {.m = 40, .n = 56, .k = 72, .constant_b = false}});
  const Turns met = turns(trials.size(), 1, trials.size());
  for (const size_t k : met.taken()) {
    const GemmProblem& p = trials[k].problem;
    const Settings settings = trials[k].settings();
    GemmData data(p);
    data.set_a(0, 3, 64, NAN);
    data.set_a(0, 7, 5, INFINITY);
    data.set_b(0, 0, 50, -INFINITY);
    auto tactics = interpreted_tactics(p.graph(), "tv::matmul", settings, profile_);
    std::erase_if(tactics,
                  [](const CandidateTactic& t) { return t.name.find("f16") == t.name.npos; });
    for (const size_t t : turns(tactics.size(), fewer_sanitised(2), 6, k, met.round).taken()) {
      SCOPED_TRACE(trials[k].str() + ", " + tactics[t].name + "; " + seed_text());
      InterpretedEngine engine(
          engine_with_tactic(p.graph(), "tv::matmul", tactics[t].name, settings, profile_, cache_),
          kFragmentLayouts[drawn_for(t) % std::size(kFragmentLayouts)]);
      const TensorCall call = [&](auto weights, auto inputs, auto outputs) {
        engine.run(weights, inputs, outputs);
      };
      ASSERT_NO_THROW(data.run(call, 0));
      for (int64_t i = 0; i < p.m * p.n; ++i) {
        const int64_t m = i / p.n, n = i % p.n;
        const double got = data.output(0, m, n);
        const bool nan = m == 3, infinite = m == 7 || n == 50;
        // Infinity, or NaN where two differ in sign.
        EXPECT_TRUE(nan                 ? std::isnan(got)
                    : m == 7 && n == 50 ? !std::isfinite(got)
                    : infinite          ? std::isinf(got)
                                        : std::isfinite(got))
            << m << ", " << n << " is " << got;
      }
    }
  }
}

/// One engine for all numbers of rows.
TEST_F(MatrixInterpreted, RowsAreCountedAtTheCall) {
  constexpr int64_t kRows = 97;  // stands for the symbol in the graph
  const Turns met = turns(4, 1, 4);
  for (const size_t k : met.taken()) {
    GemmProblem problem{.m = kRows, .n = 40, .k = 72, .constant_b = k % 2 == 0};
    problem.dtype = k < 2 ? DType::kF16 : DType::kF32;
    Graph graph = problem.graph();
    graph.symbols = {{.name = "m", .min = 1, .opt = 64, .max = 300}};
    for (Value& value : graph.values) {
      std::ranges::replace(value.shape, Expr(kRows), Expr::symbol(0));
    }
    auto tactics = interpreted_tactics(graph, "tv::matmul", {}, profile_);
    std::erase_if(tactics,
                  [](const CandidateTactic& t) { return t.name.find("f16") == t.name.npos; });
    for (const size_t t : turns(tactics.size(), 1, 6, k, met.round).taken()) {
      SCOPED_TRACE(problem.str() + ", " + tactics[t].name + "; " + seed_text());
      InterpretedEngine engine(
          engine_with_tactic(graph, "tv::matmul", tactics[t].name, {}, profile_, cache_),
          kFragmentLayouts[drawn_for(t) % std::size(kFragmentLayouts)]);
      for (const int64_t rows : {1, 47, 130}) {
        problem.m = rows;
        const TensorCall call = [&](auto weights, auto inputs, auto outputs) {
          engine.run(weights, inputs, outputs, std::vector<int64_t>{rows});
        };
        ASSERT_NO_THROW(expect_close({.problem = problem}, GemmData(problem).run(call))) << rows;
      }
    }
  }
}

/// Which kernels of the matrix units there are, so that a new one is given tests here.
TEST_F(MatrixInterpreted, EveryKernelIsRunOrListed) {
  std::set<std::string> found, second;
  profile_.coop_matrix2 = true;
  for (const auto& [op, converter] : Registry::instance().all()) {
    if (!converter.convert || !converter.examples) continue;
    for (const Graph& example : converter.examples()) {
      const Graph graph = choose_layouts(canonicalise(example, {}, profile_), {}, profile_);
      ValueTable table(graph);
      for (const Node& node : graph.nodes) {
        for (const Tactic& tactic : convert_node(node, table, profile_, {}).candidates) {
          for (const Step& step : tactic.steps) {
            if (step.matrix) (step.matrix->nv2 ? second : found).insert(step.kernel);
          }
        }
      }
    }
  }
  // Those of the tests here and in test_attention_interpreted.cpp.
  EXPECT_EQ(found, (std::set<std::string>{"attention_matrix", "conv_matrix", "conv_matrix_pack",
                                          "matmul_fragments", "matmul_matrix", "matmul_pack"}));
  // Run where glslang is 15 or later, which GL_NV_cooperative_matrix2 takes: a few lines are others
  // then (attention_matrix_rows.glsl).
  EXPECT_EQ(second, std::set<std::string>{"attention_matrix"});
}

}  // namespace
}  // namespace tv::test
