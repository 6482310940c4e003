// Every tactic of a convolution that the device, or a GPU in its place, would take, against
// float64.

#include <gtest/gtest.h>

#include <cmath>

#include "tests/cpp/kit/seed.h"
#include "workloads/conv_problem.h"

namespace tv::test {
namespace {

std::vector<ConvProblem> problems() {
  std::vector<ConvProblem> list = {
      {.ic = 64, .h = 9, .w = 11, .oc = 40, .kh = 1, .kw = 1, .pad = 0},
      {.n = 2, .ic = 24, .h = 14, .w = 14, .oc = 64, .residual = true, .relu = true},
      {.ic = 37, .h = 13, .w = 7, .oc = 29, .stride = 2},
      {.n = 2, .ic = 3, .h = 29, .w = 31, .oc = 16, .kh = 7, .kw = 7, .stride = 2, .pad = 3},
      {.ic = 8, .h = 13, .w = 13, .oc = 16, .kh = 3, .kw = 2, .pad = 2, .dilation = 2},
      {.n = 3, .ic = 32, .h = 7, .w = 7, .oc = 48, .groups = 4},
      {.n = 2, .ic = 24, .h = 15, .w = 17, .oc = 24, .stride = 2, .groups = 24, .relu = true},
      {.ic = 24, .h = 9, .w = 8, .oc = 48, .kh = 5, .kw = 5, .pad = 2, .groups = 24},
      {.ic = 40, .h = 7, .w = 7, .oc = 24, .constant_weight = false},
      {.n = 2, .ic = 32, .h = 9, .w = 7, .oc = 40, .stride = 2, .residual = true, .last = true},
      {.ic = 64, .h = 8, .w = 8, .oc = 24, .kh = 1, .kw = 1, .pad = 0, .groups = 2, .last = true},
      {.ic = 24, .h = 9, .w = 8, .oc = 24, .groups = 24, .last = true},
      {.n = 2, .ic = 48, .h = 9, .w = 11, .oc = 72, .silu = true, .last = true},
      {.ic = 20, .h = 9, .w = 8, .oc = 24, .silu = true},
      {.n = 2, .ic = 144, .h = 5, .w = 7, .oc = 40, .groups = 2},
      {.n = 2, .ic = 30, .h = 9, .w = 9, .oc = 27, .stride = 2, .groups = 3, .residual = true},
      {.ic = 8, .h = 1, .w = 161, .oc = 8, .kh = 1, .kw = 131, .pad = 0, .groups = 2},
      {.ic = 16, .h = 7, .w = 5, .oc = 24, .d = 5, .kd = 3, .residual = true, .relu = true},
      {.n = 2, .ic = 37, .h = 6, .w = 7, .oc = 19, .stride = 2, .d = 7, .kd = 2},
      {.n = 2, .ic = 3, .h = 13, .w = 11, .oc = 16, .kh = 5, .kw = 4, .stride = 2, .d = 6, .kd = 3},
      {.ic = 70, .h = 7, .w = 8, .oc = 24, .kh = 1, .kw = 1, .pad = 0, .d = 3, .kd = 1},
      {.ic = 64, .h = 5, .w = 8, .oc = 16, .kh = 1, .kw = 1, .pad = 0, .d = 3, .kd = 1},
      {.n = 2,
       .ic = 12,
       .h = 7,
       .w = 5,
       .oc = 18,
       .pad = 2,
       .dilation = 2,
       .groups = 3,
       .d = 5,
       .kd = 2},
      {.n = 2, .ic = 8, .h = 5, .w = 12, .oc = 16, .stride = 2, .groups = 8, .d = 5, .kd = 3},
      {.ic = 32, .h = 5, .w = 6, .oc = 24, .d = 3, .kd = 3, .last = true},
      {.ic = 8, .h = 5, .w = 9, .oc = 8, .groups = 8, .d = 3, .kd = 3, .last = true},
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

/// The dtype's rounding of the result, and that of a sum in float32.
double limit_of(DType dtype) {
  return dtype == DType::kF32 ? 1e-6 : dtype == DType::kF16 ? 1e-3 : 8e-3;
}

/// The device as it is and, where that is a CPU, as a GPU would be seen.
std::vector<DeviceProfile> profiles(const DeviceProfile& device) {
  if (!device.is_cpu()) return {device};
  return {device, as_gpu(device)};
}

/// Settings that float32's tactics depend on: of those on matrix units.
std::vector<Settings> float_settings(const DeviceProfile& device) {
  if (device.coop_matrices.empty()) return {{}};
  return {{}, {.disable_tf32 = false}};
}

TEST(Convolution, EveryTacticAgreesWithFloat64) {
  const auto device = open_device("");
  int64_t runs = 0;
  const std::vector<ConvProblem> all = problems();
  for (size_t i = 0; i < all.size(); ++i) {
    if (!has_turn(i, all.size())) continue;
    const ConvProblem& problem = all[i];
    ConvData data(problem);
    for (const DeviceProfile& p : profiles(profile(*device))) {
      for (const Candidate& c : candidates(problem, device, {}, p)) {
        SCOPED_TRACE(problem.str() + ": " + c.name + "; " + seed_text());
        EXPECT_FALSE(c.failed) << c.problem;
        if (!c.engine) continue;
        EXPECT_EQ(c.spec.dispatches.back().tactic, c.name);
        EXPECT_LE(data.run(c.engine).largest, limit_of(problem.dtype));
        ++runs;
      }
    }
  }
  EXPECT_GE(runs, tests_all() ? 80 : 30);
}

TEST(Convolution, WorkgroupsShareLongSumsOfSmallImagesWithTheSameBitsAtEveryCall) {
  const auto device = open_device("");
  const DeviceProfile gpu = as_gpu(profile(*device));
  size_t found = 0;
  for (const ConvProblem& problem :
       {ConvProblem{.ic = 96, .h = 7, .w = 7, .oc = 72, .residual = true, .relu = true},
        ConvProblem{.n = 2,
                    .ic = 520,
                    .h = 4,
                    .w = 6,
                    .oc = 24,
                    .kh = 1,
                    .kw = 1,
                    .pad = 0,
                    .dtype = DType::kF16},
        ConvProblem{
            .ic = 128, .h = 5, .w = 5, .oc = 32, .stride = 2, .groups = 2, .bias = false}}) {
    ConvData data(problem);
    for (const Candidate& c : candidates(problem, device, {}, gpu, {"conv_tiled_64x64_k"})) {
      SCOPED_TRACE(problem.str() + ": " + c.name);
      ASSERT_TRUE(c.engine) << c.problem;
      ++found;
      const double first = data.run(c.engine).norm;
      EXPECT_LE(first, limit_of(problem.dtype));
      for (int i = 0; i < 3; ++i) EXPECT_EQ(data.run(c.engine).norm, first);
    }
  }
  EXPECT_EQ(found, 3u);
}

// Numbers of one size and of sizes 2^160 apart, at the largest: what float16 pieces lose is found
// and computed again. docs/accuracy.md and the settings' page promise these bounds.
TEST(Convolution, ErrorsStayWithinAShareOfTheTermsSizes) {
  const auto device = open_device("");
  const ConvProblem problems[] = {
      {.ic = 40, .h = 9, .w = 11, .oc = 24},
      {.n = 2, .ic = 64, .h = 8, .w = 8, .oc = 40, .stride = 2, .residual = true, .last = true},
      {.ic = 3, .h = 15, .w = 17, .oc = 16, .kh = 5, .kw = 5, .stride = 2, .pad = 2, .relu = true},
      {.ic = 128, .h = 7, .w = 7, .oc = 32, .kh = 1, .kw = 1, .pad = 0, .groups = 2, .bias = false},
      {.ic = 272, .h = 5, .w = 6, .oc = 16, .dilation = 2, .constant_weight = false}};
  int64_t runs = 0;
  for (ConvProblem problem : problems) {
    const double plain = (4 + 2 * std::sqrt(static_cast<double>(problem.k()))) * 0x1p-24;
    for (const Settings& settings : float_settings(profile(*device))) {
      for (const DeviceProfile& p : profiles(profile(*device))) {
        const std::vector<Candidate> list = candidates(problem, device, settings, p);
        for (const int spread : {0, 12, 40}) {
          problem.spread = spread;
          ConvData data(problem);
          for (const Candidate& c : list) {
            SCOPED_TRACE(problem.str() + (settings.disable_tf32 ? "" : ", TF32") + ": " + c.name);
            EXPECT_FALSE(c.failed) << c.problem;
            if (!c.engine) continue;
            EXPECT_LE(data.run(c.engine).of_terms, settings.disable_tf32 ? plain : 0x1p-10);
            ++runs;
          }
        }
      }
    }
  }
  EXPECT_GE(runs, 30);
}

// Infinities and NaN reach the outputs that read them, and no others.
TEST(Convolution, WhatIsNotFiniteStaysWhereItIsRead) {
  const auto device = open_device("");
  for (const bool last : {false, true}) {
    const ConvProblem problem{.ic = 32, .h = 9, .w = 9, .oc = 24, .last = last};
    for (const Settings& settings : float_settings(profile(*device))) {
      for (const DeviceProfile& p : profiles(profile(*device))) {
        const std::vector<Candidate> list = candidates(problem, device, settings, p);
        for (const float value : {INFINITY, NAN}) {
          ConvData data(problem);
          data.set_x(0, 5, 4, 4, value);
          for (const Candidate& c : list) {
            SCOPED_TRACE(problem.str() + (settings.disable_tf32 ? "" : ", TF32") + ": " + c.name);
            if (!c.engine) continue;
            EXPECT_EQ(data.not_finite(c.engine), 24 * 9);
          }
        }
      }
    }
  }
}

// Sums of thousands of products lose half of what a plain sum in float32 loses, or less: in blocks,
// and in pieces on matrix units.
TEST(Convolution, LongSumsStayAccurate) {
  const auto device = open_device("");
  for (const int64_t k : {1, 3}) {
    const ConvProblem problem{.ic = 1024, .h = 7, .w = 7, .oc = 32, .kh = k, .kw = k, .pad = k / 2};
    ConvData data(problem);
    const double plain = data.plain_error();
    for (const DeviceProfile& p : profiles(profile(*device))) {
      for (const Candidate& c : candidates(problem, device, {}, p)) {
        SCOPED_TRACE(problem.str() + ": " + c.name);
        if (!c.engine) continue;
        EXPECT_LE(data.run(c.engine).norm, plain / 2);
      }
    }
  }
}

}  // namespace
}  // namespace tv::test
