// Kernels of the matrix units without a GPU: engines as the compiler makes them for an H200, run by
// the SPIR-V interpreter (tests/cpp/kit/interpreter) on sizes that no tile divides, against
// float64. Some of the problems, tactics and layouts of fragments each run, all with TV_TEST_ALL.

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <set>

#include "tests/cpp/kit/interpreted_engine.h"
#include "tests/cpp/kit/matrix_engines.h"
#include "tests/cpp/kit/seed.h"
#include "workloads/conv_problem.h"
#include "workloads/gemm_problem.h"

namespace tv::test {
namespace {

using interpreter::FragmentLayout;

constexpr FragmentLayout kLayouts[] = {FragmentLayout::kNvidia, FragmentLayout::kScattered,
                                       FragmentLayout::kReplicated};
constexpr const char* kLayoutNames[] = {"as NVIDIA's", "scattered", "replicated"};

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

  /// Runs `most` trials, each with one of the tactics whose names begin with `prefix`, all of them
  /// with TV_TEST_ALL, and gives their errors to `check`.
  template <class Data, class Problem, class Check>
  void run(const std::vector<Trial<Problem>>& trials, const std::string& op,
           const std::string& prefix, size_t most, const Check& check) {
    size_t runs = 0;
    for (const size_t t : drawn(trials.size(), trials.size())) {
      if (runs >= most && !tests_all()) break;
      const Trial<Problem>& trial = trials[t];
      const Graph graph = trial.problem.graph();
      auto tactics = interpreted_tactics(graph, op, trial.settings(), profile_);
      std::erase_if(tactics, [&](const OfferedTactic& o) { return !o.name.starts_with(prefix); });
      Data data(trial.problem, test_seed());
      for (const size_t k : drawn(tactics.size(), 1, static_cast<uint32_t>(t))) {
        const size_t l = (runs++ + test_seed()) % std::size(kLayouts);
        SCOPED_TRACE(trial.str() + ", " + tactics[k].name + ", fragments " + kLayoutNames[l] +
                     "; " + seed_text());
        const EngineSpec spec =
            engine_with_tactic(graph, op, tactics[k].name, trial.settings(), profile_, cache_);
        InterpretedEngine engine(spec, kLayouts[l]);
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
  return trials_of<GemmProblem>({
      {.m = 33, .n = 47, .k = 50},
      {.m = 33, .n = 56, .k = 72},
      {.m = 1, .n = 89, .k = 40},
      {.m = 72, .n = 56, .k = 136, .constant_b = false},
      {.batch = 2, .m = 40, .n = 24, .k = 72, .constant_b = false, .shared_b = false},
      {.batch = 3, .m = 17, .n = 40, .k = 24},
      {.m = 40, .n = 72, .k = 56, .a_transposed = true, .b_transposed = true, .constant_b = false},
      {.m = 40, .n = 72, .k = 56, .a_transposed = true, .constant_b = false, .tail = true},
      {.m = 33, .n = 40, .k = 88, .b_transposed = true, .tail = true},
      {.m = 130, .n = 136, .k = 200},
      {.m = 16, .n = 40, .k = 776, .positive = 1},
      {.m = 64, .n = 64, .k = 128, .constant_b = false},
      {.m = 72, .n = 56, .k = 104, .constant_b = false, .spread = 12},
  });
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
                         testing::Values("matmul_shared_", "matmul_direct_", "matmul_rows_",
                                         "matmul_packed_"),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(ProductsInterpreted, AreRightInEveryLayoutOfFragments) {
  run<GemmData>(products(), "tv::matmul", GetParam(), 2, expect_close);
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
  });
  run<ConvData>(trials, "aten::convolution", "conv_matrix_", 4,
                [](const Trial<ConvProblem>& trial, const ConvData::Errors& errors) {
                  const DType dtype = trial.problem.dtype;
                  const double limit = dtype == DType::kF16    ? 1e-3
                                       : dtype == DType::kBF16 ? 8e-3
                                       : trial.tf32            ? 0x1p-10
                                                               : 1e-6;
                  EXPECT_LE(errors.largest, limit);
                });
}

}  // namespace
}  // namespace tv::test
