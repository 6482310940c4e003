// Every code of every small floating-point number, as elements and as scales of packed weights, on
// every kernel that reads them: on the device itself, on a CPU driver with a GPU's kernels too, and
// those of matrix units interpreted.

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "converters/kit/steps.h"
#include "csrc/graph/quantised.h"
#include "tests/cpp/kit/interpreted_engine.h"
#include "tests/cpp/kit/matrix_engines.h"
#include "tests/cpp/kit/rotation.h"
#include "tests/cpp/kit/sample_graphs.h"
#include "tests/cpp/kit/seed.h"
#include "tests/cpp/kit/small_floats.h"
#include "workloads/tactic_run.h"

namespace tv::test {
namespace {

constexpr int64_t kRows = 256, kSteps = 64, kBlock = 16;

/// A row of the weight for each code, which all other elements of the row are added to as zeros.
struct Codes {
  std::string format, scale_format;
  int64_t m = 3;

  bool of_scales() const { return !scale_format.empty(); }
  int64_t bits() const { return format == "float4_e2m1fn" ? 4 : 8; }
  int64_t groups() const { return of_scales() ? kSteps / kBlock : 1; }

  Graph graph() const {
    ExampleGraph g("tv::matmul_quantised");
    g.input("a", DType::kF32, {m, kSteps});
    g.input("input", DType::kU8, {kRows, kSteps * bits() / 8});
    of_scales() ? g.input("scale", DType::kU8, {kRows, groups()}) : g.none("scale");
    g.none("zero_point").attr("bits", Expr(bits())).attr("format", format);
    if (of_scales()) g.attr("scale_format", scale_format);
    return g.output(DType::kF32, {m, kRows}).graph();
  }

  void fill(TacticRun& run) const {
    std::vector<float> ones(static_cast<size_t>(m * kSteps), 1.0F);
    const auto* bytes = reinterpret_cast<const uint8_t*>(ones.data());
    run.set_input(0, {bytes, bytes + ones.size() * sizeof(float)});
    std::vector<uint8_t> elements(static_cast<size_t>(kRows * kSteps * bits() / 8));
    std::vector<uint8_t> scales(static_cast<size_t>(kRows * groups()), 0x38);
    for (int64_t row = 0; row < kRows; ++row) {
      const int64_t step = row * 37 % kSteps;  // in each place of a word, and in each group
      const int code = of_scales() ? one() : static_cast<int>(row) & ((1 << bits()) - 1);
      const int64_t at = row * kSteps + step;
      elements[static_cast<size_t>(at * bits() / 8)] |=
          static_cast<uint8_t>(bits() == 4 && at % 2 == 1 ? code << 4 : code);
      scales[static_cast<size_t>(row * groups() + step / (kSteps / groups()))] =
          static_cast<uint8_t>(row);
    }
    run.set_input(1, elements);
    if (of_scales()) run.set_input(2, scales);
  }

  /// The code of 1.
  int one() const { return bits() == 4 ? 2 : 0x38; }

  double wanted(int64_t row) const {
    const int code = static_cast<int>(row);
    if (of_scales()) return small_float(scale_format, code);
    return small_float(format, code & ((1 << bits()) - 1));
  }
};

std::vector<Codes> all_codes() {
  std::vector<Codes> all;
  for (const std::string_view format : kSmallFloats) {
    const std::string name(format);
    // 0 of e8m0 is 2^-127: its rows have no zeros to add.
    if (name != "float8_e8m0fnu") all.push_back({.format = name});
    if (name != "float4_e2m1fn") all.push_back({.format = "float4_e2m1fn", .scale_format = name});
  }
  return all;
}

/// An infinite scale makes NaN of the zeros of its group, where elements are scaled one by one.
/// Scales of 2^-127 are denormals, for which some GPUs take 0 (docs/accuracy.md).
bool is_wanted(const Codes& codes, double got, double wanted, bool on_cpu) {
  if (std::isinf(wanted) && codes.of_scales()) return !std::isfinite(got);
  if (!on_cpu && wanted != 0 && std::abs(wanted) < 0x1p-126 && got == 0) return true;
  return std::isnan(wanted) ? std::isnan(got) : got == wanted;
}

void expect_equal(const Codes& codes, const std::vector<double>& got, const std::string& tactic,
                  bool on_cpu) {
  ASSERT_EQ(got.size(), static_cast<size_t>(codes.m * kRows));
  for (size_t i = 0; i < got.size(); ++i) {
    const double wanted = codes.wanted(static_cast<int64_t>(i) % kRows);
    ASSERT_TRUE(is_wanted(codes, got[i], wanted, on_cpu))
        << codes.format << " " << codes.scale_format << ", " << tactic << ", code " << i % kRows
        << ": got " << got[i] << ", want " << wanted;
  }
}

/// One tactic of each kernel; returns their names.
std::set<std::string> check_kernels(const Codes& codes, const std::shared_ptr<Device>& device,
                                    const DeviceProfile& profile) {
  TacticRun run(codes.graph(), device, profile);
  codes.fill(run);
  std::set<std::string> kernels;
  for (const CandidateTactic& tactic : run.tactics()) {
    const std::string kernel =
        tactic.name.substr(0, tactic.name.find_last_not_of("x_0123456789w") + 1);
    if (!tactic.refusal.empty() || !kernels.insert(kernel).second) continue;
    expect_equal(codes, run.outputs(tactic.name)[0], tactic.name, tv::profile(*device).is_cpu());
  }
  return kernels;
}

TEST(SmallFloats, EveryKernelDecodesEveryCode) {
  const auto device = open_device("");
  const DeviceProfile own = profile(*device);
  DeviceProfile gpu = own;
  gpu.type = DeviceType::kDiscrete;
  std::set<std::string> kernels;
  for (const Codes& codes : all_codes()) {
    kernels.merge(check_kernels(codes, device, own));
    if (own.is_cpu()) kernels.merge(check_kernels(codes, device, gpu));
  }
  for (const char* kernel :
       {"matmul_quantised_reference", "matmul_quantised_rows", "matmul_quantised_tiled"}) {
    EXPECT_TRUE(kernels.contains(kernel)) << kernel;
  }
  EXPECT_EQ(kernels.contains("matmul_quantised_simd"), own.is_cpu());
}

/// Of what float16 holds, as matrix units multiply 16 bits: 2^-24 to 65504, infinities and NaN.
bool fits_half(double number) {
  const double size = std::abs(number);
  return !std::isfinite(size) || size == 0 || (size >= 0x1p-24 && size <= 65504);
}

TEST(SmallFloats, MatrixUnitsDecodeEveryCode) {
  const auto cache =
      std::filesystem::temp_directory_path() / ("tv_codes_" + std::to_string(getpid()));
  const std::vector<Codes> all = all_codes();
  for (const size_t k : turns(all.size(), fewer_sanitised(2), all.size()).taken()) {
    Codes codes = all[k];
    codes.m = 16;
    Graph graph = codes.graph();
    graph.value(graph.inputs[0]).dtype = DType::kF16;
    TacticRun run(graph, nullptr, h200_profile());
    codes.fill(run);
    std::vector<uint8_t> ones;
    for (int64_t i = 0; i < codes.m * kSteps; ++i) ones.insert(ones.end(), {0x00, 0x3c});
    run.set_input(0, ones);
    const char* op = "tv::matmul_quantised";
    const auto tactics = interpreted_tactics(graph, op, {}, h200_profile());
    const auto shared = std::ranges::find_if(tactics, [](const CandidateTactic& t) {
      return t.name.starts_with("matmul_quantised_shared_");
    });
    ASSERT_NE(shared, tactics.end());
    InterpretedEngine engine(engine_with_tactic(graph, op, shared->name, {}, h200_profile(), cache),
                             interpreter::FragmentLayout::kNvidia);
    const auto got = run.outputs(engine.spec(), [&](auto weights, auto in, auto out) {
      engine.run(weights, {in.begin(), in.end()}, out);
    })[0];
    for (size_t i = 0; i < got.size(); ++i) {
      const double wanted = codes.wanted(static_cast<int64_t>(i) % kRows);
      if (!fits_half(wanted)) continue;
      ASSERT_TRUE(is_wanted(codes, got[i], wanted, true))
          << codes.format << " " << codes.scale_format << ", " << shared->name << ", code "
          << i % kRows << ": got " << got[i] << ", want " << wanted;
    }
  }
  std::filesystem::remove_all(cache);
}

}  // namespace
}  // namespace tv::test
