// Tactics of products for GPUs that the device can run against float64: sizes that no tile divides,
// layouts, batches, epilogues, numbers that are not finite and exponents far apart. Each problem
// meets some of them, others for the next seed (kit/rotation.h), all in `scripts/test.sh --all`. On
// a CPU a run has the largest tiles for few of the problems.

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <functional>
#include <set>
#include <tuple>

#include "tests/cpp/kit/rotation.h"
#include "tests/cpp/kit/seed.h"
#include "workloads/gemm_problem.h"

namespace tv::test {
namespace {

/// In one of so many runs a problem meets one of the large tactics.
constexpr uint64_t kRunsToLarge = 16;

/// Tiles that CPU drivers take long to compile.
bool is_large(const std::string& tactic) {
  return tactic.ends_with("_8x16") || tactic.find("128x128") != tactic.npos;
}

class Gemm : public testing::Test {
 protected:
  std::shared_ptr<Device> device_ = open_device("");

  /// Which tactics a test is about.
  std::function<bool(const std::string&)> wanted_ = [](const std::string&) { return true; };
  uint64_t problems_ = 0;  ///< that were met so far

  /// Tactics that apply, of those that are wanted.
  std::vector<std::string> applicable(const GemmProblem& problem, const Settings& settings) {
    std::vector<std::string> names;
    for (const CandidateTactic& t :
         candidate_tactics(problem, settings, as_gpu(profile(*device_)))) {
      if (t.refusal.empty() && wanted_(t.name)) names.push_back(t.name);
    }
    return names;
  }

  /// Those of them that this problem, the `number`th of this test, meets at a seed: few on a CPU,
  /// whose driver would compile thousands of kernels.
  std::vector<std::string> met(const std::vector<std::string>& names, uint64_t number,
                               uint64_t seed) {
    if (tests_all()) return names;
    const bool is_cpu = profile(*device_).is_cpu();
    std::vector<std::string> from = names;
    if (is_cpu) std::erase_if(from, is_large);
    std::vector<std::string> taken;
    for (const size_t i : turn(from.size(), is_cpu ? 1 : 5, this_problem(number), seed)) {
      taken.push_back(from[i]);
    }
    if (is_cpu) {
      for (const std::string& name : large_met(names, number, seed)) taken.push_back(name);
    }
    return taken;
  }

  /// The large tactic of `names` that the problem meets on a CPU: none at most seeds.
  std::vector<std::string> large_met(std::vector<std::string> names, uint64_t number,
                                     uint64_t seed) {
    std::erase_if(names, [](const std::string& name) { return !is_large(name); });
    const uint64_t problem = this_problem(number);
    if (names.empty() || (problem + seed) % kRunsToLarge != 0) return {};
    return {names[turn(names.size(), 1, problem, seed / kRunsToLarge)[0]]};
  }

  /// Calls `f(name, engine)` for the tactics that the problem meets, one at least.
  template <class F>
  void for_each_tactic(const GemmProblem& problem, const Settings& settings, F&& f) {
    const DeviceProfile device = as_gpu(profile(*device_));
    const std::vector<std::string> names = applicable(problem, settings);
    ASSERT_FALSE(names.empty());
    for (const std::string& name : met(names, problems_++, test_seed())) {
      SCOPED_TRACE(problem.str() + ", " + name + ", " + seed_text());
      const EngineSpec spec = compile_with_tactic(problem.graph(), name, settings, device);
      bool used = false;
      for (const Dispatch& d : spec.dispatches) used |= d.tactic == name;
      EXPECT_TRUE(used) << "the engine does not use the tactic";
      f(name, Engine::create(device_, spec));
    }
  }

  /// Whether the device offers one of the tactics that are wanted.
  bool offers(const GemmProblem& problem) { return !applicable(problem, {}).empty(); }

  /// Tactics within `products` · Σ|a||b| of float64 where the result is float32, and of any type
  /// within `products` · √k of the largest result and a unit in the last place of 16 bits.
  void expect_close(const GemmProblem& problem, double products, const Settings& settings = {}) {
    GemmData data(problem);
    for_each_tactic(problem, settings, [&](const std::string&, const auto& engine) {
      const auto errors = data.run(engine);
      const double rounding = problem.dtype == DType::kF32   ? 0
                              : problem.dtype == DType::kF16 ? 0x1p-10
                                                             : 0x1p-7;
      EXPECT_LE(errors.largest, rounding + products * std::sqrt(static_cast<double>(problem.k)))
          << "norm " << errors.norm << ", products " << errors.products;
      if (problem.dtype == DType::kF32) {
        EXPECT_LE(errors.products, products);
      }
      // Sums of a few terms differ by luck.
      if (problem.dtype == DType::kF32 && settings.disable_tf32 && !problem.epilogue &&
          problem.k > 60) {
        EXPECT_LE(errors.norm, 1.1 * data.plain_error());
      }
    });
  }
};

/// What plain fp32, one product added after the other, comes to in these tests is up to 0.8 of this
/// where exponents lie far apart.
constexpr double kFull = 0x1p-20;
constexpr double kTf32 = 0x1p-10;
const Settings kFast{.disable_tf32 = false};

/// Each dtype, with b a weight and with b an input.
class GemmOf : public Gemm, public testing::WithParamInterface<std::tuple<DType, bool>> {
 protected:
  DType dtype_ = std::get<0>(GetParam());
  bool constant_ = std::get<1>(GetParam());
};
INSTANTIATE_TEST_SUITE_P(All, GemmOf,
                         testing::Combine(testing::Values(DType::kF16, DType::kBF16, DType::kF32),
                                          testing::Bool()),
                         [](const auto& info) {
                           return std::string(name(std::get<0>(info.param))) +
                                  (std::get<1>(info.param) ? "_constant" : "_dynamic");
                         });

TEST_P(GemmOf, SizesThatNoTileDivides) {
  for (const auto& [m, n, k] : {std::array<int64_t, 3>{1, 1, 1},
                                {3, 7, 5},
                                {1, 89, 113},
                                {113, 41, 89},
                                {16, 64, 128},
                                {129, 136, 200}}) {
    expect_close({.m = m, .n = n, .k = k, .dtype = dtype_, .constant_b = constant_}, kFull);
  }
}

TEST_P(GemmOf, TransposedOperands) {
  for (const bool at : {true, false}) {
    for (const bool bt : {true, false}) {
      expect_close({.m = 72,
                    .n = constant_ ? 53 : 104,
                    .k = 136,
                    .dtype = dtype_,
                    .a_transposed = at,
                    .b_transposed = bt,
                    .constant_b = constant_},
                   kFull);
    }
  }
}

/// One row with a matrix that lies as nn.Linear has its weight: it is kept in shared memory.
TEST_F(Gemm, OneRowThatIsKept) {
  wanted_ = [](const std::string& name) { return name.find("_kept") != name.npos; };
  for (const DType dtype : {DType::kF16, DType::kBF16, DType::kF32}) {
    for (const auto& [m, n, k] :
         {std::array<int64_t, 3>{1, 37, 16}, {1, 300, 2064}, {1, 53, 1056}, {1, 2500, 48}}) {
      for (const bool epilogue : {false, true}) {
        expect_close({.m = m,
                      .n = n,
                      .k = k,
                      .dtype = dtype,
                      .b_transposed = true,
                      .constant_b = !epilogue,
                      .epilogue = epilogue},
                     kFull);
      }
    }
  }
}

TEST_F(Gemm, Batches) {
  for (const DType dtype : {DType::kF16, DType::kF32}) {
    for (const bool shared : {true, false}) {
      for (const bool constant : {true, false}) {
        expect_close({.batch = 3,
                      .m = 40,
                      .n = 56,
                      .k = 72,
                      .dtype = dtype,
                      .constant_b = constant,
                      .shared_b = shared},
                     kFull);
        expect_close({.batch = 2,
                      .m = 29,
                      .n = 37,
                      .k = 67,
                      .dtype = dtype,
                      .constant_b = constant,
                      .shared_b = shared},
                     kFull);
      }
    }
  }
}

TEST_F(Gemm, Epilogues) {
  for (const DType dtype : {DType::kF16, DType::kBF16, DType::kF32}) {
    expect_close({.m = 33, .n = 100, .k = 96, .dtype = dtype, .epilogue = true}, kFull);
    expect_close({.m = 5, .n = 37, .k = 96, .dtype = dtype, .constant_b = false, .epilogue = true},
                 kFull);
  }
}

TEST_F(Gemm, LongSums) {
  for (const DType dtype : {DType::kF16, DType::kF32}) {
    for (const int64_t m : {1, 4, 16, 65}) {
      expect_close({.m = m, .n = 64, .k = 4104, .dtype = dtype}, kFull);
      expect_close({.m = m, .n = 64, .k = 2051, .dtype = dtype, .positive = 1}, kFull);
    }
  }
}

/// Debug builds gather the rows of every other workgroup, as all do where the driver lays fragments
/// out in another way. Beside the validation layer there is no bfloat16, and so are no pieces of
/// fp32.
TEST_F(Gemm, RowsStraightIntoFragmentsAndGathered) {
  wanted_ = [](const std::string& name) { return name.starts_with("matmul_direct_"); };
  if (!offers({.m = 72, .n = 200, .k = 136})) {
    GTEST_SKIP() << "this device's fragments do not lie as rows are read";
  }
  for (const bool gathered : {false, true}) {
    const Settings settings{.check_addresses = gathered};
    for (const DType dtype : {DType::kF16, DType::kBF16, DType::kF32}) {
      for (const int64_t k : {8, 72, 136, 768}) {
        const GemmProblem problem{.m = 72, .n = 200, .k = k, .dtype = dtype};
        if (offers(problem)) expect_close(problem, kFull, settings);
      }
      const GemmProblem problem{.batch = 2,
                                .m = 33,
                                .n = 100,
                                .k = 264,
                                .dtype = dtype,
                                .shared_b = false,
                                .epilogue = true};
      if (offers(problem)) expect_close(problem, kFull, settings);
    }
  }
}

/// Sums of two numbers, and what float16 makes of them.
TEST_F(Gemm, Float16ResultsAreRoundedToTheNearestAndKeepDenormals) {
  constexpr float kSums[][3] = {{1, 0x1p-11F, 1},
                                {1 + 0x1p-10F, 0x1p-11F, 1 + 0x1p-9F},  // ties go to the even one
                                {1, 0x1.04p-11F, 1 + 0x1p-10F},
                                {0x1.8p-14F, -0x1p-14F, 0x1p-15F},
                                {0x1.004p-14F, -0x1p-14F, 0x1p-24F},  // denormals
                                {65504, 15, 65504},
                                {65504, 16, INFINITY}};
  constexpr auto kCount = static_cast<int64_t>(std::size(kSums));
  const auto sign = [](int64_t m) { return m / kCount % 2 == 0 ? 1.0F : -1.0F; };
  for (const int64_t rows : {16, 40, 136}) {
    for (const bool constant : {false, true}) {
      const GemmProblem p{.m = rows, .n = 56, .k = 72, .constant_b = constant};
      GemmData data(p);
      for (int64_t k = 0; k < p.k; ++k) {
        for (int64_t m = 0; m < p.m; ++m) {
          data.set_a(0, m, k, k == 3 || k == 70 ? sign(m) * kSums[m % kCount][k == 70] : 0.0F);
        }
        for (int64_t n = 0; n < p.n; ++n) data.set_b(0, k, n, k == 3 || k == 70 ? 1.0F : 0.0F);
      }
      for_each_tactic(p, {}, [&](const std::string&, const auto& engine) {
        data.run(engine, 0);
        for (int64_t m = 0; m < p.m; ++m) {
          const double wanted = sign(m) * kSums[m % kCount][2];
          for (int64_t n = 0; n < p.n; ++n) {
            ASSERT_EQ(data.output(0, m, n), wanted) << "row " << m << ", column " << n;
          }
        }
      });
    }
  }
}

TEST_F(Gemm, CheaperSplitsStayWithinTheirBound) {
  for (const int spread : {0, 12, 40}) {
    expect_close({.m = 72, .n = 56, .k = 264, .dtype = DType::kF32, .spread = spread}, kTf32,
                 kFast);
    expect_close({.m = 72,
                  .n = 56,
                  .k = 264,
                  .dtype = DType::kF32,
                  .constant_b = false,
                  .positive = 1,
                  .spread = spread},
                 kTf32, kFast);
  }
}

TEST_F(Gemm, ExponentsFarApartKeepFullAccuracy) {
  for (const int spread : {12, 30, 50}) {
    expect_close({.m = 72, .n = 56, .k = 264, .dtype = DType::kF32, .spread = spread}, kFull);
    expect_close(
        {.m = 72, .n = 56, .k = 264, .dtype = DType::kF32, .constant_b = false, .spread = spread},
        kFull);
  }
}

TEST_P(GemmOf, WhatIsNotFiniteStaysInItsRowAndColumn) {
  const GemmProblem p{.m = 40, .n = 56, .k = 72, .dtype = dtype_, .constant_b = constant_};
  GemmData data(p);
  data.set_a(0, 3, 64, NAN);
  data.set_a(0, 7, 5, INFINITY);
  data.set_b(0, 0, 50, -INFINITY);
  const auto check = [&](const std::string&, const auto& engine) {
    data.run(engine, 0);
    for (int64_t m = 0; m < p.m; ++m) {
      for (int64_t n = 0; n < p.n; ++n) {
        const double got = data.output(0, m, n);
        if (m == 3) {
          EXPECT_TRUE(std::isnan(got)) << m << ", " << n;
        } else if (m == 7 && n == 50) {
          EXPECT_FALSE(std::isfinite(got));  // infinity, or NaN where the two differ in sign
        } else if (m == 7 || n == 50) {
          EXPECT_TRUE(std::isinf(got)) << m << ", " << n << " is " << got;
        } else {
          EXPECT_TRUE(std::isfinite(got)) << m << ", " << n << " is " << got;
        }
      }
    }
  };
  for_each_tactic(p, {}, check);
  if (dtype_ == DType::kF32) for_each_tactic(p, kFast, check);
}

/// Tactics of float16 pieces: at full accuracy two, where TF32 is allowed one.
class ScaledPieces : public Gemm {
 protected:
  void expect_close(const GemmProblem& p, GemmData& data) {
    const DeviceProfile device = profile(*device_);
    if (device.coop_matrices.empty()) GTEST_SKIP() << "this device has no matrix units";
    for (const auto& [settings, pieces, error] :
         {std::tuple(Settings{}, "_f16x2_", kFull), {kFast, "_f16x1_", kTf32}}) {
      size_t found = 0;
      for (const CandidateTactic& t : candidate_tactics(p, settings, device)) {
        if (!t.refusal.empty() || t.name.find(pieces) == t.name.npos) continue;
        SCOPED_TRACE(t.name);
        const EngineSpec spec = compile_with_tactic(p.graph(), t.name, settings, device);
        EXPECT_LE(data.run(Engine::create(device_, spec)).products, error);
        ++found;
      }
      EXPECT_GT(found, 0U);
    }
  }
};

TEST_F(ScaledPieces, LeaveOutWhatScalingDoesNotReach) {
  const GemmProblem p{.m = 72, .n = 88, .k = 96, .dtype = DType::kF32};
  GemmData data(p);
  for (int64_t k = 0; k < p.k; ++k) {  // groups of 16 rows or columns: one of each, and the rest
    data.set_a(0, 20, k, std::ldexp(1.0F + static_cast<float>(k % 7), k % 2 == 0 ? 40 : -40));
    data.set_b(0, k, 50, std::ldexp(1.5F - static_cast<float>(k % 5), k % 3 == 0 ? 30 : -50));
    data.set_a(0, 40, k, 0.0F);
  }
  expect_close(p, data);
}

TEST_F(ScaledPieces, KeepSmallNumbersThatMeetZeros) {
  const GemmProblem p{.m = 72, .n = 88, .k = 96, .dtype = DType::kF32};
  GemmData data(p);
  for (int64_t k = 0; k < p.k; ++k) {  // columns of b that pick a number of a, or half of its row
    for (int64_t n = 0; n < p.n; ++n) {
      if (n < 48 ? n != k : (n + k) % 2 == 0) data.set_b(0, k, n, 0.0F);
    }
  }
  for (int64_t m = 0; m < p.m; ++m) data.set_a(0, m, m % 48, std::ldexp(1.25F, -36));
  expect_close(p, data);
}

TEST_F(Gemm, HugeAndTinyNumbers) {
  const GemmProblem p{.m = 16, .n = 16, .k = 96, .dtype = DType::kF32};
  GemmData data(p);
  for (int64_t k = 0; k < p.k; ++k) {
    data.set_a(0, 0, k, 0x1.fffffep127F);  // times a tiny number: near 1
    data.set_a(0, 1, k, 0x1.8p-140F);      // a denormal
    data.set_a(0, 2, k, 0x1.23456p100F);
    data.set_b(0, k, 0, 0x1.2p-125F);
    data.set_b(0, k, 1, 0x1.54321p120F);
    data.set_b(0, k, 2, 0x1.34567p-100F);
  }
  double error = kFull;
  const auto check = [&](const std::string&, const auto& engine) {
    data.run(engine, 0);
    const double k = static_cast<double>(p.k);
    const auto near = [&](int64_t m, int64_t n, double want) {
      EXPECT_NEAR(data.output(0, m, n) / (k * want), 1.0, error) << m << ", " << n;
    };
    near(0, 0, 0x1.fffffep127 * 0x1.2p-125);
    near(2, 2, 0x1.23456p100 * 0x1.34567p-100);
    EXPECT_TRUE(std::isinf(data.output(0, 0, 1))) << "above the largest number";
    EXPECT_TRUE(std::isinf(data.output(0, 2, 1)));
    // A device may take denormals for zero, and no more.
    const double got = data.output(0, 1, 1), want = k * 0x1.8p-140 * 0x1.54321p120;
    EXPECT_TRUE(got == 0.0 || std::abs(got / want - 1.0) < 0x1p-6) << got;
  };
  for_each_tactic(p, {}, check);
  error = kTf32;
  for_each_tactic(p, kFast, check);
}

/// Tactics whose workgroups share the steps of k: names that end with _k and a number.
bool is_shared(const std::string& name) {
  const size_t at = name.rfind("_k");
  return at != name.npos && name.find_first_not_of("0123456789", at + 2) == name.npos;
}

/// Few outputs with long sums, so that the rule shares the steps of k.
class SharedSums : public Gemm, public testing::WithParamInterface<GemmProblem> {};
INSTANTIATE_TEST_SUITE_P(
    All, SharedSums,
    testing::Values(
        GemmProblem{.m = 7, .n = 37, .k = 1031, .dtype = DType::kF32},
        GemmProblem{.m = 16, .n = 96, .k = 2048, .dtype = DType::kF16, .epilogue = true},
        GemmProblem{.m = 33, .n = 64, .k = 1040, .dtype = DType::kBF16, .constant_b = false},
        GemmProblem{.batch = 3,
                    .m = 5,
                    .n = 52,
                    .k = 776,
                    .dtype = DType::kF32,
                    .constant_b = false,
                    .shared_b = false,
                    .positive = 1}),
    [](const auto& info) { return std::to_string(info.index); });

TEST_P(SharedSums, AreRightAndHaveTheSameBitsAtEveryCall) {
  const GemmProblem& p = GetParam();
  const DeviceProfile device = as_gpu(profile(*device_));
  GemmData data(p);
  size_t found = 0;
  wanted_ = is_shared;
  std::vector<std::string> names = applicable(p, {});
  if (profile(*device_).is_cpu() && !tests_all()) {
    const std::vector<std::string> large = large_met(names, 0, test_seed());
    std::erase_if(names, is_large);
    names.insert(names.end(), large.begin(), large.end());
  }
  for (const std::string& name : names) {
    SCOPED_TRACE(p.str() + ", " + name);
    ++found;
    const EngineSpec spec = compile_with_tactic(p.graph(), name, {}, device);
    const auto engine = Engine::create(device_, spec);
    const auto errors = data.run(engine);
    if (p.dtype == DType::kF32) {
      EXPECT_LE(errors.products, kFull);
      EXPECT_LE(errors.norm, 1.1 * data.plain_error());
    } else {
      EXPECT_LE(errors.largest, p.dtype == DType::kF16 ? 0x1p-9 : 0x1p-6);
    }
    std::vector<double> first;
    for (const bool again : {false, true}) {
      if (again) data.run(engine, 0);
      for (int64_t i = 0; i < p.batch * p.m * p.n; ++i) {
        const double got = data.output(i / (p.m * p.n), i / p.n % p.m, i % p.n);
        if (!again) {
          first.push_back(got);
        } else {
          ASSERT_EQ(got, first[static_cast<size_t>(i)]) << i;
        }
      }
    }
  }
  EXPECT_GT(found, 0u);
}

TEST_F(Gemm, ASumThatIsNotFiniteStaysOneWhereWorkgroupsShareIt) {
  const GemmProblem p{.m = 16, .n = 64, .k = 1024, .dtype = DType::kF32};
  GemmData data(p);
  data.set_a(0, 3, 1000, INFINITY);
  data.set_b(0, 5, 9, NAN);
  wanted_ = is_shared;
  for_each_tactic(p, {}, [&](const std::string&, const auto& engine) {
    data.run(engine, 0);
    for (int64_t m = 0; m < p.m; ++m) {
      for (int64_t n = 0; n < p.n; ++n) {
        const double got = data.output(0, m, n);
        if (n == 9) {
          EXPECT_TRUE(std::isnan(got)) << m;
        } else if (m == 3) {
          EXPECT_TRUE(std::isinf(got)) << n;
        } else {
          EXPECT_TRUE(std::isfinite(got)) << m << ", " << n;
        }
      }
    }
  });
}

TEST_F(Gemm, ConsecutiveSeedsBringEveryTacticToEveryProblem) {
  for (const DType dtype : {DType::kF16, DType::kBF16, DType::kF32}) {
    for (const bool constant : {true, false}) {
      const GemmProblem p{.m = 72, .n = 56, .k = 264, .dtype = dtype, .constant_b = constant};
      const std::vector<std::string> names = applicable(p, {});
      ASSERT_GT(names.size(), 1U);
      for (uint64_t number = 0; number < 3; ++number) {
        std::set<std::string> taken;
        for (uint64_t seed = 1000003; seed < 1000003 + kRunsToLarge * names.size(); ++seed) {
          for (const std::string& name : met(names, number, seed)) taken.insert(name);
        }
        EXPECT_EQ(taken, std::set<std::string>(names.begin(), names.end()));
      }
    }
  }
}

}  // namespace
}  // namespace tv::test
