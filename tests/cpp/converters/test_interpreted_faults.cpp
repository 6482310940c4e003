// Faults as they are made, each put into a kernel of the matrix units that was right: the
// interpreter finds them. Some in each run, all with TV_TEST_ALL.

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <variant>

#include "csrc/codegen/kernel_source.h"
#include "tests/cpp/kit/interpreted_engine.h"
#include "tests/cpp/kit/matrix_engines.h"
#include "tests/cpp/kit/rotation.h"
#include "tests/cpp/kit/seed.h"
#include "workloads/conv_problem.h"
#include "workloads/gemm_problem.h"

namespace tv::test {
namespace {

struct KernelFault {
  std::variant<GemmProblem, ConvProblem> problem;
  const char* tactic;  ///< the first whose name begins so
  KernelEdit edit;
  const char* found;  ///< part of what the interpreter says; "": the sums are wrong
};

std::vector<KernelFault> faults() {
  const GemmProblem rows{.m = 33, .n = 56, .k = 72};
  const GemmProblem shared{.m = 40, .n = 56, .k = 72, .constant_b = false};
  const ConvProblem conv{.ic = 40, .h = 5, .w = 7, .oc = 40, .dtype = DType::kF16};
  return {
      // Bounds.
      {rows, "matmul_rows_", {"min(m, m_count - 1) * (a_ld / 8)", "m * (a_ld / 8)"}, "of a,"},
      {rows, "matmul_rows_", {"if (m >= m_count || n >= n_count) return;", ""}, "of y,"},
      {rows, "matmul_rows_", {"valid && span < span_count && k < k_count", "valid"}, "of b,"},
      {rows, "matmul_direct_", {"+ min(n, k_count / 8 - 1)", "+ n"}, "of a,"},
      {shared,
       "matmul_shared_",
       {"min(bm * BM + row_a + i * STEP_A, m_count - 1)", "(bm * BM + row_a + i * STEP_A)"},
       "of a,"},
      {conv, "conv_matrix_", {"at) && c.valid && tap <", "at) && tap <"}, "of x,"},
      {conv, "conv_matrix_", {"source * lhs == u && source < size", "source * lhs == u"}, ""},
      {conv, "conv_matrix_", {"STORES && p.m < oc_count && p.c", "STORES && p.c"}, "of b,"},
      // Strides and offsets.
      {rows, "matmul_direct_", {"s_k)", "s_k + 1u)"}, ""},
      {rows,
       "matmul_direct_",
       {"min(m0 + i * 16 + h * 8 + row", "min(m0 + i * 16 + h * 4 + row"},
       ""},
      {rows,
       "matmul_rows_",
       {"i * 16 * LDA + (u) * 2, LDA,", "i * 16 * LDA + (u) * 2, LDA - 1,"},
       ""},
      {shared, "matmul_shared_", {"STEP_UVEC4S + i * 16 * LDA", "STEP_UVEC4S + i * 15 * LDA"}, ""},
      {shared, "matmul_shared_f16_64x64x32_", {"A_NEXT (BK / 8)", "A_NEXT (BK / 8 + 1)"}, ""},
      {conv, "conv_matrix_", {"j * 16 * LD + s * 2 + h,", "j * 16 * LD + s * 2 + h + 1,"}, ""},
      // Barriers.
      {rows,
       "matmul_rows_",
       {"#define PATCH 1", "#define PATCH 1\n#define subgroupBarrier()"},
       "no barrier between"},
      {shared,
       "matmul_shared_",
       {"#define PATCH 1", "#define PATCH 1\n#define barrier()"},
       "no barrier between"},
  };
}

/// All of them, since a run draws a few.
TEST(InterpretedFaults, HaveAKernelThatTheyAreIn) {
  for (const KernelFault& fault : faults()) {
    const bool known = std::ranges::any_of(kernel_sources(), [&](const auto& kernel) {
      return kernel.second.find(fault.edit.from) != std::string_view::npos;
    });
    EXPECT_TRUE(known) << fault.tactic << ": " << fault.edit.from;
  }
}

TEST(InterpretedFaults, InKernelsOfTheMatrixUnitsAreFound) {
  const auto cache =
      std::filesystem::temp_directory_path() / ("tv_faults_" + std::to_string(getpid()));
  const DeviceProfile profile = h200_profile();
  const auto list = faults();
  for (const size_t k : turns(list.size(), fewer_sanitised(5), list.size()).taken()) {
    const KernelFault& fault = list[k];
    SCOPED_TRACE(std::string(fault.tactic) + ": " + fault.edit.from + " -> " + fault.edit.to +
                 "; " + seed_text());
    const bool product = std::holds_alternative<GemmProblem>(fault.problem);
    const Graph graph = std::visit([](const auto& p) { return p.graph(); }, fault.problem);
    const std::string op = product ? "tv::matmul" : "aten::convolution";
    std::string name;
    for (const CandidateTactic& t : interpreted_tactics(graph, op, {}, profile)) {
      if (name.empty() && t.name.starts_with(fault.tactic)) name = t.name;
    }
    InterpretedEngine engine(engine_with_tactic(graph, op, name, {}, profile, cache, fault.edit),
                             interpreter::FragmentLayout::kNvidia);
    const TensorCall call = [&](auto weights, auto inputs, auto outputs) {
      engine.run(weights, inputs, outputs);
    };
    std::string said;
    double error = 0;
    try {
      error = product ? GemmData(std::get<GemmProblem>(fault.problem)).run(call).largest
                      : ConvData(std::get<ConvProblem>(fault.problem)).run(call).largest;
    } catch (const interpreter::Fault& refused) {
      said = refused.what();
    }
    EXPECT_NE(said.find(fault.found), said.npos) << said;
    EXPECT_TRUE(!said.empty() || !(error < 0x1p-9)) << "error " << error;
  }
  std::filesystem::remove_all(cache);
}

}  // namespace
}  // namespace tv::test
