// Kernels of the matrix units without a GPU: engines as the compiler makes them for an H200, run by
// the SPIR-V interpreter (tests/cpp/kit/interpreter) on sizes that no tile divides, against
// float64. Some of the problems, tactics and layouts of fragments each run, all with TV_TEST_ALL.

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <regex>
#include <set>

#include "csrc/converter.h"
#include "csrc/lowering/tactics.h"
#include "csrc/passes/canonicalise.h"
#include "csrc/passes/choose_layouts.h"
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
    for (const size_t t : drawn(trials.size(), trials.size(), trials.size())) {
      if (runs >= most && !tests_all()) break;
      const Trial<Problem>& trial = trials[t];
      const Graph graph = trial.problem.graph();
      profile_.compute_units = kUnits[(test_seed() + t) % std::size(kUnits)];
      auto tactics = interpreted_tactics(graph, op, trial.settings(), profile_);
      const std::regex wanted(names);
      std::erase_if(tactics,
                    [&](const OfferedTactic& o) { return !std::regex_match(o.name, wanted); });
      Data data(trial.problem, test_seed());
      for (const size_t k : drawn(tactics.size(), 1, 6, static_cast<uint32_t>(t))) {
        const size_t l = (runs++ + test_seed()) % std::size(kLayouts);
        SCOPED_TRACE(trial.str() + ", " + tactics[k].name + ", " +
                     std::to_string(profile_.compute_units) + " compute units, fragments " +
                     kLayoutNames[l] + "; " + seed_text());
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
  auto trials = trials_of<GemmProblem>({
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
                                        {.m = 16, .n = 24, .k = 4104, .tail = true},
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
        for (const Tactic& tactic : convert_node(node, table, profile_, {}).offered) {
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
  // Not interpreted: GL_NV_cooperative_matrix2, of which no specification is here to interpret it
  // by, takes the place of a few lines (attention_matrix_rows.glsl). Tests on a device that has it
  // run them.
  EXPECT_EQ(second, std::set<std::string>{"attention_matrix"});
}

/// Faults as they are made, each put into a kernel that was right: what these tests are for.
TEST_F(MatrixInterpreted, FaultsInKernelsAreFound) {
  struct Fault {
    const char* tactic;
    KernelEdit edit;
    const char* found;  ///< part of what the interpreter says; "": the sums are wrong
  };
  const GemmProblem product{.m = 33, .n = 56, .k = 72};
  const GemmProblem shared{.m = 40, .n = 56, .k = 72, .constant_b = false};
  const auto expect_found = [&](const auto& problem, auto data, const std::string& op,
                                const Fault& fault) {
    SCOPED_TRACE(std::string(fault.tactic) + ": " + fault.edit.from + " -> " + fault.edit.to);
    const Graph graph = problem.graph();
    std::string name;
    for (const OfferedTactic& t : interpreted_tactics(graph, op, {}, profile_)) {
      if (name.empty() && t.name.starts_with(fault.tactic)) name = t.name;
    }
    InterpretedEngine engine(engine_with_tactic(graph, op, name, {}, profile_, cache_, fault.edit),
                             FragmentLayout::kNvidia);
    std::string said;
    double error = 0;
    try {
      error = data.run(TensorCall([&](auto weights, auto inputs, auto outputs) {
                    engine.run(weights, inputs, outputs);
                  }))
                  .largest;
    } catch (const interpreter::Fault& refused) {
      said = refused.what();
    }
    EXPECT_NE(said.find(fault.found), said.npos) << said;
    EXPECT_TRUE(!said.empty() || !(error < 0x1p-9)) << "error " << error;
  };
  for (const Fault& fault : std::initializer_list<Fault>{
           // Bounds.
           {"matmul_rows_",
            {"min(m, m_count - 1) * (a_ld / 8)", "m * (a_ld / 8)"},
            "beginning of a"},
           {"matmul_rows_", {"if (m >= m_count || n >= n_count) return;", ""}, "beginning of y"},
           {"matmul_rows_",
            {"valid && span < span_count && k < k_count", "valid"},
            "beginning of b"},
           {"matmul_direct_", {"+ min(n_, k_count / 8 - 1)", "+ n_"}, "beginning of a"},
           // Strides and offsets.
           {"matmul_direct_", {"s_k)", "s_k + 1u)"}, ""},
           {"matmul_direct_",
            {"min(m0 + i * 16 + h * 8 + row, m_count", "min(m0 + i * 16 + h * 4 + row, m_count"},
            ""},
           {"matmul_rows_",
            {"patch_a + p * PIECE_A + i * 16 * LDA + (u) * 2, LDA,",
             "patch_a + p * PIECE_A + i * 16 * LDA + (u) * 2, LDA - 1,"},
            ""},
           // Barriers.
           {"matmul_rows_",
            {"void main() {", "#define subgroupBarrier()\nvoid main() {"},
            "no barrier between"},
       }) {
    expect_found(product, GemmData(product), "tv::matmul", fault);
  }
  for (const Fault& fault : std::initializer_list<Fault>{
           {"matmul_shared_",
            {"void main() {", "#define barrier()\nvoid main() {"},
            "no barrier between"},
           {"matmul_shared_",
            {"min(bm * BM + row_a + i * STEP_A, m_count - 1) * LD_A",
             "(bm * BM + row_a + i * STEP_A) * LD_A"},
            "beginning of a"},
           {"matmul_shared_",
            {"(s) * WK * 2 + (i) * 16 * LDA", "(s) * WK * 2 + (i) * 15 * LDA"},
            ""},
           {"matmul_shared_f16_64x64x32_", {"A_NEXT (BK / 8)", "A_NEXT (BK / 8 + 1)"}, ""},
       }) {
    expect_found(shared, GemmData(shared), "tv::matmul", fault);
  }
  const ConvProblem conv{.ic = 40, .h = 5, .w = 7, .oc = 40, .dtype = DType::kF16};
  for (const Fault& fault : std::initializer_list<Fault>{
           {"conv_matrix_",
            {"rows && cols && c.valid && kh < k_h", "rows && cols && kh < k_h"},
            "beginning of x"},
           {"conv_matrix_", {"source * lhs == u && source < size", "source * lhs == u"}, ""},
           {"conv_matrix_",
            {"e < STORES && p.m < oc_count && p.c < columns", "e < STORES && p.c < columns"},
            "beginning of b"},
           {"conv_matrix_",
            {"p * PIECE + j * 16 * LD + s * 2, LD,", "p * PIECE + j * 16 * LD + s * 2 + 1, LD,"},
            ""},
       }) {
    expect_found(conv, ConvData(conv), "aten::convolution", fault);
  }
}

}  // namespace
}  // namespace tv::test
