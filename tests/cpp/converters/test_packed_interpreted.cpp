// Products of packed weights and of integers on matrix units without a GPU, as
// tests/cpp/converters/test_matrix_interpreted.cpp does it: floats against float64, integers
// exactly.

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <optional>
#include <set>

#include "converters/kit/steps.h"
#include "tests/cpp/kit/interpreted_engine.h"
#include "tests/cpp/kit/matrix_engines.h"
#include "tests/cpp/kit/rotation.h"
#include "tests/cpp/kit/seed.h"
#include "tests/cpp/kit/small_floats.h"
#include "tests/cpp/kit/weights.h"
#include "workloads/tactic_run.h"

namespace tv::test {
namespace {

using interpreter::kFragmentLayouts;
using Numbers = std::vector<std::vector<double>>;

constexpr double kSpread = 25;  // of inputs, so that bytes have all their bits

size_t at(int64_t i) { return static_cast<size_t>(i); }

/// a [m, k] times a packed matrix [n, k].
struct Packed {
  static constexpr const char* kOp = "tv::matmul_quantised";
  int64_t m = 16, n = 40, k = 160, groups = 1, bits = 8, scale_rows = 0;  ///< 0: n
  DType input = DType::kI8, scale = DType::kF32, zero = DType::kOther, a = DType::kF16;
  std::string format = {}, scale_format = {};

  std::string str() const {
    return std::to_string(m) + "x" + std::to_string(n) + "x" + std::to_string(k) + ", " +
           std::to_string(groups) + " groups of " + std::to_string(bits) + " bits " + format + " " +
           scale_format + ", " + std::string(name(a)) + ", zero points " + std::string(name(zero));
  }
  Graph graph() const {
    ExampleGraph g("tv::matmul_quantised");
    const Shape blocks = {rows(), groups};
    g.input("a", a, {m, k}).input("input", input, {n, k * bits / 8});
    scale == DType::kOther ? g.none("scale") : g.input("scale", scale, blocks);
    zero == DType::kOther ? g.none("zero_point") : g.input("zero_point", zero, blocks);
    g.attr("bits", Expr(bits));
    if (!format.empty()) g.attr("format", format);
    if (!scale_format.empty()) g.attr("scale_format", scale_format);
    return g.output(DType::kF32, {m, n}).graph();
  }
  int64_t rows() const { return scale_rows > 0 ? scale_rows : n; }

  double weight(const Numbers& in, int64_t row, int64_t step) const {
    double value = in[1][at(row * (k * bits / 8) + step * bits / 8)];
    if (bits == 4) value = step % 2 == 0 ? std::fmod(value, 16) : std::floor(value / 16);
    if (!format.empty()) value = small_float(format, static_cast<int>(value));
    const size_t block = at((rows() > 1 ? row * groups : 0) + step / (k / groups));
    if (!scale_format.empty()) {
      return value * small_float(scale_format, static_cast<int>(in[2][block]));
    }
    double zero_point = bits == 4 && format.empty() ? 8 : 0;
    if (zero != DType::kOther) zero_point = in.back()[block];
    return (value - zero_point) * (scale == DType::kOther ? 1 : in[2][block]);
  }
  std::set<size_t> weights() const { return {1}; }
  std::optional<std::vector<uint8_t>> zero_points() const { return std::nullopt; }
  Numbers reference(const Numbers& in) const {
    Numbers out(1);
    for (int64_t i = 0; i < m * n; ++i) {
      double sum = 0;
      for (int64_t s = 0; s < k; ++s) sum += in[0][at(i / n * k + s)] * weight(in, i % n, s);
      out[0].push_back(sum);
    }
    return out;
  }
  /// Rows with one scale are multiplied as the integers that they are, others rounded; so is all
  /// that a workspace holds.
  double limit(const std::string& tactic) const {
    const bool mixed = zero != DType::kOther && zero != input && bits == 8;
    const bool fits = zero != DType::kI32 && (!mixed || a == DType::kF16);
    const bool workspace = tactic.find("_workspace_") != tactic.npos;
    if (a == DType::kF32 || (groups == 1 && fits && !workspace)) return 4e-6;
    return a == DType::kF16 ? 0x1p-11 : 0x1p-8;
  }
};

std::vector<Packed> packed_problems() {
  using enum DType;
  std::vector<Packed> problems;
  for (const Packed& p : std::initializer_list<Packed>{
           {},
           {.m = 3, .n = 37, .k = 304, .groups = 19, .zero = kI8},
           {.m = 70, .n = 130, .k = 96, .groups = 3, .bits = 4, .input = kU8, .scale = kF16},
           {.m = 33, .n = 41, .k = 208, .groups = 13, .bits = 4, .input = kU8, .zero = kU8},
           {.m = 17, .n = 29, .k = 144, .bits = 4, .input = kU8, .zero = kU8},
           {.m = 24, .n = 53, .k = 80, .input = kU8, .zero = kI32},
           {.m = 40, .n = 24, .k = 128, .groups = 2, .scale_rows = 1},
           {.m = 9, .n = 19, .k = 112, .scale = kOther, .zero = kU8},
           {.m = 7, .n = 24, .k = 1072, .groups = 67, .bits = 4, .input = kU8, .zero = kU8},
           {.m = 5, .n = 19, .k = 1024},
           {.m = 20, .n = 40, .k = 160, .input = kU8, .format = "float8_e4m3fnuz"},
           {.m = 37,
            .n = 43,
            .k = 96,
            .groups = 6,
            .bits = 4,
            .input = kU8,
            .scale = kU8,
            .format = "float4_e2m1fn",
            .scale_format = "float8_e4m3fnuz"}}) {
    for (const DType dtype : {kF16, kBF16, kF32}) {
      problems.push_back(p);
      problems.back().a = dtype;
    }
  }
  return problems;
}

/// tv::matmul_integer's.
struct Integers {
  static constexpr const char* kOp = "tv::matmul_integer";
  int64_t batch = 0, m = 37, n = 41, k = 192;
  DType a = DType::kI8, b = DType::kI8, a_zero = DType::kOther, b_zero = DType::kOther;
  bool by_rows = false;
  /// How many rows of b are other than signed bytes, the last ones; -1: any.
  int64_t shifted = -1;

  /// Which inputs may be weights.
  std::set<size_t> weights() const {
    if (b_zero == DType::kOther) return {1};
    return {1, a_zero == DType::kOther ? size_t{2} : size_t{3}};
  }
  /// Zero points of b of which so many are not what makes signed bytes of it.
  std::optional<std::vector<uint8_t>> zero_points() const {
    if (shifted < 0) return std::nullopt;
    const int64_t rows = by_rows ? n : 1, size = size_bytes(b_zero);
    std::vector<uint8_t> made(at(rows * size));
    for (int64_t i = 0; i < rows; ++i) {
      made[at(i * size)] = (b == DType::kU8 ? 128 : 0) + (i < rows - shifted ? 0 : 3);
    }
    return made;
  }

  std::string str() const {
    return std::to_string(m) + "x" + std::to_string(n) + "x" + std::to_string(k) + ", " +
           std::string(name(a)) + " less " + std::string(name(a_zero)) + ", " +
           std::string(name(b)) + " less " + std::string(name(b_zero));
  }
  Graph graph() const {
    Shape a_shape = {m, k}, b_shape = {n, k}, y = {m, n};
    for (Shape* shape : {&a_shape, &b_shape, &y}) {
      if (batch > 0) shape->insert(shape->begin(), Expr(batch));
    }
    ExampleGraph g("tv::matmul_integer");
    g.input("a", a, a_shape).input("b", b, b_shape);
    const auto zero = [&](const char* arg, DType dtype, int64_t rows) {
      dtype == DType::kOther ? g.none(arg) : g.input(arg, dtype, {by_rows ? rows : 1, 1});
    };
    zero("a_zero", a_zero, m);
    zero("b_zero", b_zero, n);
    return g.output(DType::kI32, y).graph();
  }
  Numbers reference(const Numbers& in) const {
    const auto zero = [&](DType dtype, size_t input, int64_t row) {
      return dtype == DType::kOther ? 0 : in[input][at(by_rows ? row : 0)];
    };
    Numbers out(1);
    for (int64_t i = 0; i < std::max<int64_t>(batch, 1) * m * n; ++i) {
      const int64_t row = i / n, z = row / m, column = i % n;
      const double p = zero(a_zero, 2, row % m);
      const double q = zero(b_zero, a_zero == DType::kOther ? 2 : 3, column);
      double sum = 0;
      for (int64_t s = 0; s < k; ++s) {
        sum += (in[0][at(row * k + s)] - p) * (in[1][at((z * n + column) * k + s)] - q);
      }
      out[0].push_back(sum);
    }
    return out;
  }
  double limit(const std::string&) const { return 0; }
};

std::vector<Integers> integer_problems() {
  using enum DType;
  return {
      {},
      {.m = 70, .n = 130, .k = 61, .a = kU8, .a_zero = kU8},
      {.m = 5, .n = 70, .k = 300, .a = kU8, .b = kU8, .a_zero = kU8, .b_zero = kI32},
      {.m = 29, .n = 53, .k = 256, .a_zero = kI8, .b_zero = kI8, .by_rows = true},
      {.batch = 3, .m = 11, .n = 37, .k = 64, .a = kU8, .a_zero = kU8, .b_zero = kI8},
      {.batch = 2, .m = 5, .n = 7, .k = 9, .b = kU8, .b_zero = kU8},
      {.m = 19, .n = 45, .k = 113, .a = kU8, .b = kU8, .a_zero = kU8, .b_zero = kU8},
      {.m = 40, .n = 24, .k = 1024, .b = kU8},
      // Zero points of b that turn out to be none.
      {.m = 21, .n = 45, .k = 96, .a = kU8, .a_zero = kU8, .b_zero = kI8, .shifted = 0},
      {.m = 21, .n = 45, .k = 96, .b = kU8, .b_zero = kI32, .by_rows = true, .shifted = 0},
      {.m = 21, .n = 45, .k = 96, .b_zero = kI8, .by_rows = true, .shifted = 1},
  };
}

/// Some problems, each with some of the tactics whose names begin so, and one layout each.
template <class Problem>
void run(const std::vector<Problem>& problems, const std::string& names,
         const DeviceProfile& profile, size_t most) {
  const auto cache =
      std::filesystem::temp_directory_path() / ("tv_packed_" + std::to_string(getpid()));
  size_t runs = 0;
  const Turns met = turns(problems.size(), fewer_sanitised(most), problems.size());
  for (const size_t k : met.taken()) {
    const Problem& p = problems[k];
    // Zero points that are set say something about constants alone.
    const bool constant = p.zero_points() || drawn_for(k) % 2 == 0;
    const Graph graph = constant ? with_weights(p.graph(), p.weights()) : p.graph();
    auto tactics = interpreted_tactics(graph, Problem::kOp, {}, profile);
    std::erase_if(tactics, [&](const CandidateTactic& t) { return !t.name.starts_with(names); });
    ASSERT_FALSE(tactics.empty()) << p.str();
    TacticRun data(p.graph(), nullptr, profile, kSpread);
    if (const auto zeros = p.zero_points()) data.set_input(*p.weights().rbegin(), *zeros);
    const Numbers wanted = p.reference(data.inputs());
    for (const size_t t : turns(tactics.size(), 1, 12, k, met.round).taken()) {
      SCOPED_TRACE(p.str() + ", " + tactics[t].name + "; " + seed_text());
      const uint64_t chance = drawn_for(problems.size() + runs++);
      const Settings settings{.check_addresses = chance % 3 == 1};
      InterpretedEngine engine(
          engine_with_tactic(graph, Problem::kOp, tactics[t].name, settings, profile, cache),
          kFragmentLayouts[chance / 3 % std::size(kFragmentLayouts)]);
      Numbers got;
      ASSERT_NO_THROW(got = data.outputs(engine.spec(), [&](auto weights, auto in, auto out) {
        std::vector<HostTensor> given, constants(weights.begin(), weights.end());
        for (size_t i = 0; i < in.size(); ++i) {
          (constant && p.weights().contains(i) ? constants : given).push_back(in[i]);
        }
        engine.run(constants, given, out);
      }));
      EXPECT_LE(largest_error(got[0], wanted[0]), p.limit(tactics[t].name));
    }
  }
  std::filesystem::remove_all(cache);
}

TEST(PackedInterpreted, WeightsAreDequantisedOnTheirWay) {
  run(packed_problems(), "matmul_quantised_shared_", h200_profile(), 5);
}

/// Floats of a matrix are made at each call: kept, they would take the memory that packing saves.
TEST(PackedInterpreted, WorkspacesAreNoWeights) {
  using enum DType;
  std::vector<Packed> problems;
  for (const Packed& p : std::initializer_list<Packed>{
           {.m = 65, .n = 72, .k = 272, .groups = 17, .zero = kI8},
           {.m = 70, .n = 130, .k = 96, .groups = 3, .bits = 4, .input = kU8, .scale = kF16},
           {.m = 64, .n = 37, .k = 128, .groups = 4, .bits = 4, .input = kU8, .zero = kI32},
           {.m = 66, .n = 40, .k = 128, .input = kU8, .format = "float8_e4m3fnuz"}}) {
    for (const DType dtype : {kF16, kBF16}) {
      problems.push_back(p);
      problems.back().a = dtype;
    }
  }
  run(problems, "matmul_quantised_workspace_", h200_profile(), 2);
  for (const Packed& p : problems) {
    const auto cache =
        std::filesystem::temp_directory_path() / ("tv_workspace_" + std::to_string(getpid()));
    const Graph graph = with_weights(p.graph(), p.weights());
    for (const CandidateTactic& t : interpreted_tactics(graph, Packed::kOp, {}, h200_profile())) {
      if (!t.name.starts_with("matmul_quantised_workspace_")) continue;
      const EngineSpec spec =
          engine_with_tactic(graph, Packed::kOp, t.name, {}, h200_profile(), cache);
      EXPECT_TRUE(spec.weight_program.empty()) << t.name;
      break;
    }
    std::filesystem::remove_all(cache);
  }
}

TEST(PackedInterpreted, IntegersAreExact) {
  run(integer_problems(), "matmul_integer_shared_", h200_profile(), 4);
}

TEST(PackedInterpreted, IntegersAreExactInMatricesOfSixteenSteps) {
  DeviceProfile profile = h200_profile();
  std::erase_if(profile.coop_matrices, [](const CoopMatShape& s) { return s.a == "int8"; });
  profile.coop_matrices.push_back({16, 16, 16, "int8", "int8", "int32", "int32"});
  run(integer_problems(), "matmul_integer_shared_", profile, 2);
}

TEST(PackedInterpreted, DevicesWithoutMatricesOfBytesSayWhy) {
  DeviceProfile profile = h200_profile();
  std::erase_if(profile.coop_matrices, [](const CoopMatShape& s) { return s.a == "int8"; });
  size_t refused = 0;
  for (const CandidateTactic& t :
       tactics_of(Integers{}.graph(), Integers{}.graph().nodes.at(0), {}, profile)) {
    if (!t.name.starts_with("matmul_integer_shared_")) continue;
    EXPECT_NE(t.refusal.find("16x16x32 matrices of int8"), t.refusal.npos) << t.refusal;
    ++refused;
  }
  EXPECT_GT(refused, 0U);
}

}  // namespace
}  // namespace tv::test
