// attention_matrix.comp without a GPU, as tests/cpp/converters/test_matrix_interpreted.cpp does it.

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>

#include "converters/kit/steps.h"
#include "csrc/codegen/glsl_compiler.h"
#include "tests/cpp/kit/interpreted_engine.h"
#include "tests/cpp/kit/matrix_engines.h"
#include "tests/cpp/kit/rotation.h"
#include "tests/cpp/kit/seed.h"
#include "workloads/tactic_run.h"

namespace tv::test {
namespace {

using interpreter::FragmentLayout;
using interpreter::kFragmentLayouts;

struct Attention {
  int64_t heads = 2, keys_heads = 2, m = 37, n = 41, d = 64, e = 64;
  bool causal = false, lse = false;
  int64_t window = -1;  ///< with a place for the first query; 0: all keys up to a query's own
  DType mask = DType::kOther;  ///< of [m, n]: bool, or what is added
  DType dtype = DType::kF16;

  std::string str() const {
    return std::to_string(heads) + "/" + std::to_string(keys_heads) + " heads, " +
           std::to_string(m) + "x" + std::to_string(n) + ", " + std::to_string(d) + " and " +
           std::to_string(e) + (causal ? ", causal" : "") + (lse ? ", sums" : "") +
           (window >= 0 ? ", placed, window " + std::to_string(window) : "") +
           (mask != DType::kOther ? ", mask of " + std::string(name(mask)) : "") + ", " +
           std::string(name(dtype));
  }
  Graph graph() const {
    ExampleGraph g("tv::attention");
    g.input("query", dtype, {heads, m, d}).input("key", dtype, {keys_heads, n, d});
    g.input("value", dtype, {keys_heads, n, e});
    mask == DType::kOther ? g.none("mask") : g.input("mask", mask, {m, n});
    g.none("factor");
    if (window >= 0) g.input("first", DType::kI64, {1}).attr("window", Expr(window));
    g.attr("is_causal", causal).attr("scale", 0.125);
    g.attr("rows", std::string("zeros")).output(dtype, {heads, m, e});
    if (lse) g.output(DType::kF32, {heads, m});
    return g.graph();
  }
};

/// The results in float64.
std::vector<std::vector<double>> reference(const Attention& a,
                                           const std::vector<std::vector<double>>& in) {
  std::vector<std::vector<double>> out(a.lse ? 2 : 1);
  for (int64_t row = 0; row < a.heads * a.m; ++row) {
    const int64_t m = row % a.m, from = row / a.m / (a.heads / a.keys_heads) * a.n;
    std::vector<double> sum(static_cast<size_t>(a.e));
    double total = 0;
    for (int64_t n = 0; n < a.n; ++n) {
      double score = 0;
      for (int64_t d = 0; d < a.d; ++d) {
        score += in[0][static_cast<size_t>(row * a.d + d)] *
                 in[1][static_cast<size_t>((from + n) * a.d + d)];
      }
      score *= 0.125;
      const double mask = a.mask == DType::kOther ? 1 : in[3][static_cast<size_t>(m * a.n + n)];
      if (a.window >= 0) {
        const double place = in[a.mask == DType::kOther ? 3 : 4][0] + static_cast<double>(m);
        const auto at = static_cast<double>(n);
        if (at > place || (a.window > 0 && at <= place - static_cast<double>(a.window))) continue;
      }
      if ((a.causal && n > m) || (a.mask == DType::kBool && mask == 0)) continue;
      if (a.mask != DType::kOther && a.mask != DType::kBool) score += mask;
      const double power = std::exp(score);
      total += power;
      for (int64_t e = 0; e < a.e; ++e) {
        sum[static_cast<size_t>(e)] += power * in[2][static_cast<size_t>((from + n) * a.e + e)];
      }
    }
    for (const double s : sum) out[0].push_back(total == 0 ? 0 : s / total);
    if (a.lse) out[1].push_back(std::log(total));
  }
  return out;
}

TEST(AttentionInterpreted, IsRightInEveryLayoutOfFragments) {
  std::vector<Attention> problems;
  for (const DType dtype : {DType::kF16, DType::kBF16}) {
    for (Attention a : std::initializer_list<Attention>{
             {},
             {.causal = true, .lse = true},
             {.mask = DType::kBool},
             {.n = 130, .window = 0},
             {.m = 70, .n = 130, .d = 32, .window = 9},
             {.window = 20, .mask = DType::kBool},
             {.heads = 4, .m = 19, .mask = dtype},
             {.heads = 6, .m = 17, .n = 67, .lse = true},
             {.heads = 1, .keys_heads = 1, .m = 70, .n = 130, .d = 32, .e = 64, .causal = true},
             {.heads = 1, .keys_heads = 1, .m = 5, .n = 9, .d = 128, .e = 128}}) {
      a.dtype = dtype;
      problems.push_back(a);
    }
  }
  const auto cache =
      std::filesystem::temp_directory_path() / ("tv_attention_" + std::to_string(getpid()));
  DeviceProfile profile = h200_profile();
  profile.coop_matrix2 = true;
  size_t runs = 0;
  const Turns met = turns(problems.size(), fewer_sanitised(2), problems.size());
  for (const size_t p : met.taken()) {
    const Attention& a = problems[p];
    auto tactics = interpreted_tactics(a.graph(), "tv::attention", {}, profile);
    std::erase_if(tactics, [](const CandidateTactic& t) {
      const bool second = glslang_major() >= 15 && t.name.starts_with("attention_matrix2_");
      return !second && !t.name.starts_with("attention_matrix_");
    });
    ASSERT_FALSE(tactics.empty()) << a.str();
    TacticRun data(a.graph(), nullptr, profile);
    const auto wanted = reference(a, data.inputs());
    for (const size_t t : turns(tactics.size(), 1, 6, p, met.round).taken()) {
      SCOPED_TRACE(a.str() + ", " + tactics[t].name + "; " + seed_text());
      InterpretedEngine engine(
          engine_with_tactic(a.graph(), "tv::attention", tactics[t].name, {}, profile, cache),
          kFragmentLayouts[drawn_for(runs++) % std::size(kFragmentLayouts)]);
      std::vector<std::vector<double>> got;
      ASSERT_NO_THROW(got = data.outputs(engine.spec(), [&](auto weights, auto in, auto out) {
        engine.run(weights, in, out);
      }));
      for (size_t k = 0; k < wanted.size(); ++k) {
        EXPECT_LE(largest_error(got[k], wanted[k]), a.dtype == DType::kF16 ? 3e-3 : 2e-2) << k;
      }
    }
  }
  std::filesystem::remove_all(cache);
}

TEST(AttentionInterpreted, FaultsInTheKernelAreFound) {
  struct Fault {
    KernelEdit edit;
    const char* found;  ///< part of what the interpreter says; "": the results are wrong
  };
  const auto cache =
      std::filesystem::temp_directory_path() / ("tv_attention_faults_" + std::to_string(getpid()));
  const DeviceProfile profile = h200_profile();
  const Attention a;
  TacticRun data(a.graph(), nullptr, profile);
  const auto wanted = reference(a, data.inputs());
  for (const Fault& fault : std::initializer_list<Fault>{
           {{"n < keys ? CHUNK(x, first, n, ld, c) : uvec4(0u)", "CHUNK(x, first, n, ld, c)"},
            "beginning of in1"},
           {{"e / (D / 8), queries - 1u)", "e / (D / 8), queries)"}, "reads"},
           {{"bool seen = n < keys;", "bool seen = n <= keys;"}, ""},
           {{"(key) + j * 16u) * LDV + c * 2u, LDV,", "(key) + j * 16u) * LDV + c * 2u, LDV + 1,"},
            ""},
           {{"void main() {", "#define barrier()\nvoid main() {"}, "no barrier between"}}) {
    SCOPED_TRACE(fault.edit.from + " -> " + fault.edit.to);
    InterpretedEngine engine(
        engine_with_tactic(a.graph(), "tv::attention", "attention_matrix_64x32", {}, profile, cache,
                           fault.edit),
        FragmentLayout::kNvidia);
    std::string said;
    double error = 0;
    try {
      const auto got = data.outputs(
          engine.spec(), [&](auto weights, auto in, auto out) { engine.run(weights, in, out); });
      error = largest_error(got[0], wanted[0]);
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
