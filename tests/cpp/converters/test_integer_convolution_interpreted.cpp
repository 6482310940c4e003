// Convolutions of bytes on matrix units without a GPU, as
// tests/cpp/converters/test_matrix_interpreted.cpp does it, against exact sums.

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <set>

#include "converters/kit/steps.h"
#include "tests/cpp/kit/graph_builder.h"
#include "tests/cpp/kit/interpreted_engine.h"
#include "tests/cpp/kit/matrix_engines.h"
#include "tests/cpp/kit/rotation.h"
#include "tests/cpp/kit/seed.h"
#include "workloads/tactic_run.h"

namespace tv::test {
namespace {

using interpreter::kFragmentLayouts;
using Numbers = std::vector<std::vector<double>>;

constexpr const char* kOp = "tv::convolution_integer";
constexpr double kSpread = 25;  // of inputs, so that bytes have all their bits

size_t at(int64_t i) { return static_cast<size_t>(i); }

struct ByteConvolution {
  int64_t n = 1, ic = 32, h = 5, w = 6, oc = 24, k = 3, stride = 1, pad = 1, dilation = 1,
          groups = 1;
  DType x = DType::kU8, weight = DType::kI8;
  bool x_zero = true;
  int64_t w_zeros = 1;                  ///< 0: none
  bool x_last = false, y_last = false;  ///< the channels of a pixel are neighbours
  bool residual = false;                ///< added in the epilogue
  bool constant = true;                 ///< the weight, and its zero points
  /// How many rows of the weight are other than signed bytes, the last ones; -1: any.
  int64_t shifted = -1;

  int64_t oh() const { return (h + 2 * pad - dilation * (k - 1) - 1) / stride + 1; }
  int64_t ow() const { return (w + 2 * pad - dilation * (k - 1) - 1) / stride + 1; }

  std::string str() const {
    return std::to_string(n) + "x" + std::to_string(ic) + "x" + std::to_string(h) + "x" +
           std::to_string(w) + " to " + std::to_string(oc) + " by " + std::to_string(k) +
           (x_last ? " last" : "") + (y_last ? " to last" : "") + (residual ? " residual" : "");
  }

  Graph graph(bool constant_weight) const {
    GraphBuilder b;
    const Shape planes = {n, ic, h, w}, result = {n, oc, oh(), ow()};
    ValueId in = b.input(x_last ? Shape{n, h, w, ic} : planes, x);
    const Shape kernel = {oc, ic / groups, k, k};
    const ValueId wt = constant_weight ? b.weight(kernel, weight) : b.input(kernel, weight);
    const ValueId xz = x_zero ? b.input({1}, x) : kNoValue;
    const ValueId wz = w_zeros == 0      ? kNoValue
                       : constant_weight ? b.weight({w_zeros}, weight)
                                         : b.input({w_zeros}, weight);
    const ValueId other = residual ? b.input(result, DType::kI32) : kNoValue;
    if (x_last) in = permuted(b, in, {0, 3, 1, 2}, x);
    ValueId y =
        b.node(kOp,
               {tensor_arg("input", in), tensor_arg("weight", wt), tensor_arg("input_zero", xz),
                tensor_arg("weight_zero", wz), attr_arg("stride", ints({stride, stride})),
                attr_arg("padding", ints({pad, pad})),
                attr_arg("dilation", ints({dilation, dilation})), attr_arg("transposed", false),
                attr_arg("output_padding", ints({0, 0})), attr_arg("groups", integer(groups))},
               {{DType::kI32, result}})
            .outputs.at(0);
    if (residual) {
      y = b.node("aten::add.Tensor",
                 {tensor_arg("self", y), tensor_arg("other", other), attr_arg("alpha", integer(1))},
                 {{DType::kI32, result}})
              .outputs.at(0);
    }
    if (y_last) y = permuted(b, y, {0, 2, 3, 1}, DType::kI32);
    b.output(y);
    return b.graph;
  }

  static ValueId permuted(GraphBuilder& b, ValueId value, const std::vector<int64_t>& dims,
                          DType dtype) {
    Shape shape;
    for (const int64_t d : dims) shape.push_back(b.graph.value(value).shape.at(at(d)));
    return b
        .node("aten::permute", {tensor_arg("self", value), attr_arg("dims", ints(dims))},
              {{dtype, shape}})
        .outputs.at(0);
  }

  double element(const Numbers& in, int64_t image, int64_t c, int64_t row, int64_t col) const {
    const int64_t i =
        x_last ? ((image * h + row) * w + col) * ic + c : ((image * ic + c) * h + row) * w + col;
    return in[0][at(i)];
  }

  /// Which inputs of graph(false) are weights of graph(true).
  std::set<size_t> weights() const {
    if (w_zeros == 0) return {1};
    return {1, x_zero ? size_t{3} : size_t{2}};
  }

  /// Zero points of which so many are not what makes signed bytes of the weight.
  std::vector<uint8_t> zero_points() const {
    std::vector<uint8_t> made(at(w_zeros), weight == DType::kU8 ? 128 : 0);
    for (int64_t i = w_zeros - shifted; i < w_zeros; ++i) made[at(i)] += 3;
    return made;
  }

  /// Of the inputs of graph(false).
  Numbers reference(const Numbers& in) const {
    const double xz = x_zero ? in[2][0] : 0;
    const size_t wz_at = x_zero ? 3 : 2, other_at = wz_at + (w_zeros > 0 ? 1 : 0);
    Numbers out(1, std::vector<double>(at(n * oc * oh() * ow())));
    for (int64_t image = 0; image < n; ++image) {
      for (int64_t o = 0; o < oc; ++o) {
        const double wz = w_zeros > 0 ? in[wz_at][at(w_zeros > 1 ? o : 0)] : 0;
        for (int64_t p = 0; p < oh() * ow(); ++p) {
          const int64_t r = p / ow(), q = p % ow();
          double sum = 0;
          for (int64_t t = 0; t < ic / groups * k * k; ++t) {
            const int64_t row = r * stride - pad + t / k % k * dilation;
            const int64_t col = q * stride - pad + t % k * dilation;
            if (row < 0 || row >= h || col < 0 || col >= w) continue;
            const int64_t c = o / (oc / groups) * (ic / groups) + t / (k * k);
            sum += (element(in, image, c, row, col) - xz) *
                   (in[1][at(o * (ic / groups) * k * k + t)] - wz);
          }
          const int64_t planar = (image * oc + o) * oh() * ow() + p;
          if (residual) sum += in[other_at][at(planar)];
          out[0][at(y_last ? (image * oh() * ow() + p) * oc + o : planar)] = sum;
        }
      }
    }
    return out;
  }
};

std::vector<ByteConvolution> byte_convolutions() {
  using enum DType;
  return {
      {},
      {.n = 2, .x_last = true, .y_last = true, .residual = true},
      {.ic = 48, .oc = 40, .k = 1, .pad = 0, .w_zeros = 40, .x_last = true, .y_last = true},
      {.n = 2, .ic = 3, .h = 11, .w = 13, .oc = 16, .k = 5, .stride = 2, .pad = 2},
      {.ic = 37, .h = 7, .w = 9, .oc = 29, .stride = 2, .weight = kU8, .residual = true},
      {.ic = 64, .oc = 48, .groups = 2, .x = kI8, .x_zero = false, .w_zeros = 0, .x_last = true},
      {.n = 3, .ic = 24, .oc = 24, .dilation = 2, .x = kI8, .weight = kU8, .w_zeros = 24},
      {.ic = 32, .h = 4, .w = 4, .oc = 16, .k = 2, .pad = 0, .w_zeros = 0, .y_last = true},
      {.ic = 80, .h = 3, .w = 3, .oc = 72, .x_last = true, .y_last = true, .constant = false},
      // Chunks of 16 channels that are half full.
      {.n = 2, .ic = 24, .k = 1, .pad = 0, .weight = kU8},
      {.ic = 40, .h = 4, .weight = kU8, .y_last = true},
      {.ic = 80, .h = 4, .oc = 32, .groups = 2, .w_zeros = 32, .x_last = true},
      {.n = 2, .ic = 64, .oc = 64, .k = 1, .stride = 2, .pad = 0, .x_zero = false, .x_last = true},
      // Zero points of the weight that turn out to be none.
      {.ic = 32, .h = 5, .oc = 24, .x_last = true, .y_last = true, .shifted = 0},
      {.ic = 24, .h = 5, .oc = 24, .weight = kU8, .w_zeros = 24, .residual = true, .shifted = 0},
      {.ic = 32, .h = 5, .oc = 40, .w_zeros = 40, .x_last = true, .shifted = 1},
  };
}

/// Each problem with some tactics, each tactic with one layout of fragments.
void run_byte_convolutions(const DeviceProfile& profile, size_t most) {
  const auto cache =
      std::filesystem::temp_directory_path() / ("tv_conv_bytes_" + std::to_string(getpid()));
  const std::vector<ByteConvolution> all = byte_convolutions();
  size_t runs = 0;
  const Turns met = turns(all.size(), fewer_sanitised(most), all.size());
  for (const size_t k : met.taken()) {
    const ByteConvolution& p = all[k];
    const Graph graph = p.graph(p.constant);
    auto tactics = interpreted_tactics(graph, kOp, {}, profile);
    std::erase_if(tactics, [](const CandidateTactic& t) {
      return !t.name.starts_with("conv_integer_matrix_");
    });
    ASSERT_FALSE(tactics.empty()) << p.str();
    TacticRun data(p.graph(false), nullptr, profile, kSpread);
    if (p.shifted >= 0) data.set_input(*p.weights().rbegin(), p.zero_points());
    const Numbers wanted = p.reference(data.inputs());
    for (const size_t t : turns(tactics.size(), 1, 10, k, met.round).taken()) {
      SCOPED_TRACE(p.str() + ", " + tactics[t].name + "; " + seed_text());
      const uint64_t chance = drawn_for(runs++);
      const Settings settings{.check_addresses = chance % 3 == 1};
      InterpretedEngine engine(
          engine_with_tactic(graph, kOp, tactics[t].name, settings, profile, cache),
          kFragmentLayouts[chance / 3 % std::size(kFragmentLayouts)]);
      Numbers got;
      ASSERT_NO_THROW(got = data.outputs(engine.spec(), [&](auto weights, auto in, auto out) {
        std::vector<HostTensor> given, constants(weights.begin(), weights.end());
        for (size_t i = 0; i < in.size(); ++i) {
          (p.constant && p.weights().contains(i) ? constants : given).push_back(in[i]);
        }
        engine.run(constants, given, out);
      }));

      EXPECT_EQ(largest_error(got[0], wanted[0]), 0);
    }
  }
  std::filesystem::remove_all(cache);
}

TEST(IntegerConvolutionInterpreted, IsExact) { run_byte_convolutions(h200_profile(), 4); }

TEST(IntegerConvolutionInterpreted, IsExactInMatricesOfSixteenSteps) {
  DeviceProfile profile = h200_profile();
  std::erase_if(profile.coop_matrices, [](const CoopMatShape& s) { return s.a == "int8"; });
  profile.coop_matrices.push_back({16, 16, 16, "int8", "int8", "int32", "int32"});
  run_byte_convolutions(profile, 2);
}

}  // namespace
}  // namespace tv::test
