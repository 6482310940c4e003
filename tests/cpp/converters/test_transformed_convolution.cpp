// Convolutions in Winograd's points, where the settings permit them, against float64.

#include <gtest/gtest.h>

#include <cmath>

#include "tests/cpp/kit/seed.h"
#include "workloads/conv_problem.h"

namespace tv::test {
namespace {

const Settings kAllowed{.allow_transformed_convolutions = true};

std::vector<Candidate> winograd(const ConvProblem& problem, const std::shared_ptr<Device>& device,
                                const Settings& settings = kAllowed) {
  return candidates(problem, device, settings, profile(*device), {"conv_winograd"});
}

std::vector<ConvProblem> problems() {
  std::vector<ConvProblem> list = {
      {.ic = 64, .h = 14, .w = 14, .oc = 64, .relu = true},
      {.n = 2, .ic = 24, .h = 13, .w = 11, .oc = 40, .residual = true, .relu = true},
      {.ic = 3, .h = 9, .w = 37, .oc = 17, .pad = 0},
      {.ic = 130, .h = 7, .w = 7, .oc = 24, .pad = 2, .silu = true},
      {.n = 3, .ic = 70, .h = 3, .w = 5, .oc = 9, .bias = false},
      {.ic = 1, .h = 1, .w = 1, .oc = 1},
      {.ic = 40, .h = 8, .w = 9, .oc = 24, .constant_weight = false},
      {.n = 2, .ic = 48, .h = 10, .w = 11, .oc = 32, .residual = true, .last = true},
      {.ic = 16, .h = 67, .w = 71, .oc = 8, .pad = 2},
  };
  const size_t count = list.size();
  for (const DType dtype : {DType::kF16, DType::kBF16}) {
    for (size_t i = 0; i < count; ++i) {
      list.push_back(list[i]);
      list.back().dtype = dtype;
    }
  }
  return list;
}

/// The dtype's rounding of the result, and what numbers of one size lose in Winograd's points.
double limit_of(const ConvProblem& problem, const std::string& name) {
  if (problem.dtype == DType::kF16) return 1e-3;
  if (problem.dtype == DType::kBF16) return 8e-3;
  return name == "conv_winograd_4x4" ? 2e-5 : 2e-6;
}

// Shows setting: allow_transformed_convolutions
TEST(TransformedConvolution, AgreesWithFloat64WhereTheSettingPermitsIt) {
  const auto device = open_device("");
  const std::vector<ConvProblem> all = problems();
  for (size_t i = 0; i < all.size(); ++i) {
    if (!has_turn(i, all.size())) continue;
    const ConvProblem& problem = all[i];
    for (const CandidateTactic& c : candidate_tactics(problem, {}, profile(*device))) {
      if (!c.name.starts_with("conv_winograd")) continue;
      EXPECT_EQ(c.refusal, "allow_transformed_convolutions is False");
    }
    const std::vector<Candidate> list = winograd(problem, device);
    if (!profile(*device).is_cpu()) {
      for (const Candidate& c : list) EXPECT_FALSE(c.engine) << c.name;
      continue;
    }
    ConvData data(problem);
    EXPECT_EQ(list.size(), 2u);
    for (const Candidate& c : list) {
      SCOPED_TRACE(problem.str() + ": " + c.name);
      ASSERT_TRUE(c.engine) << c.problem;
      EXPECT_LE(data.run(c.engine).largest, limit_of(problem, c.name));
    }
  }
}

TEST(TransformedConvolution, StaysWithinItsOperands) {
  const auto device = open_device("");
  if (!profile(*device).is_cpu()) GTEST_SKIP() << "for CPU drivers";
  Settings checked = kAllowed;
  checked.check_addresses = true;
  for (const ConvProblem& problem : {ConvProblem{.ic = 3, .h = 5, .w = 9, .oc = 4, .pad = 0},
                                     ConvProblem{.n = 2, .ic = 65, .h = 7, .w = 7, .oc = 9}}) {
    ConvData data(problem);
    for (const Candidate& c : winograd(problem, device, checked)) {
      ASSERT_TRUE(c.engine) << problem.str() << ": " << c.problem;
      EXPECT_LE(data.run(c.engine).largest, limit_of(problem, c.name)) << problem.str();
    }
  }
}

TEST(TransformedConvolution, OtherWindowsAreMultipliedDirectly) {
  const auto device = open_device("");
  for (const ConvProblem& problem :
       {ConvProblem{.ic = 64, .h = 9, .w = 9, .oc = 64, .stride = 2},
        ConvProblem{.ic = 64, .h = 9, .w = 9, .oc = 64, .kh = 5, .kw = 5, .pad = 2},
        ConvProblem{.ic = 64, .h = 9, .w = 9, .oc = 64, .pad = 2, .dilation = 2},
        ConvProblem{.ic = 64, .h = 9, .w = 9, .oc = 64, .groups = 2},
        ConvProblem{.ic = 64, .h = 9, .w = 9, .oc = 64, .d = 5, .kd = 3}}) {
    const std::vector<Candidate> list = winograd(problem, device);
    EXPECT_EQ(list.size(), 2u);
    for (const Candidate& c : list) {
      EXPECT_FALSE(c.failed) << problem.str() << ": " << c.problem;
      EXPECT_FALSE(c.engine) << problem.str();
    }
  }
}

// docs/accuracy.md: relative to the largest number of a patch, not to an output's own terms.
TEST(TransformedConvolution, ABrightPixelDisturbsItsPatchAlone) {
  const auto device = open_device("");
  if (!profile(*device).is_cpu()) GTEST_SKIP() << "for CPU drivers";
  const ConvProblem problem{.ic = 32, .h = 13, .w = 13, .oc = 24};
  for (const Candidate& c : winograd(problem, device)) {
    ASSERT_TRUE(c.engine) << c.problem;
    ConvData data(problem);
    data.set_x(0, 5, 4, 4, INFINITY);
    const int64_t tile = c.name == "conv_winograd_4x4" ? 4 : 2;
    const int64_t disturbed = data.not_finite(c.engine);
    EXPECT_GE(disturbed, 24 * 9) << c.name;
    EXPECT_LE(disturbed, 24 * 4 * tile * tile) << c.name;  // of the tiles that read it
    data.set_x(0, 5, 4, 4, 1e4F);
    EXPECT_LE(data.run(c.engine).largest, limit_of(problem, c.name)) << c.name;
  }
}

}  // namespace
}  // namespace tv::test
