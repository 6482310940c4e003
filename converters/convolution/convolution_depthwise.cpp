// Depthwise convolutions of floats and of 8-bit integers on GPUs: direct, several neighbours an
// invocation.

#include <algorithm>

#include "converters/convolution/convolution.h"
#include "converters/matmul/matrix_units.h"
#include "csrc/graph/strided.h"

namespace tv {

namespace {

constexpr uint32_t kThreads = 128;
constexpr int64_t kMostTaps = 128;  // of a window, which is unrolled; sums of 258 are exact

std::string refusal_of(const NodeContext& c, const ConvShape& s) {
  if (c.device.is_cpu()) return "CPU drivers have conv_depthwise_simd";
  if (!(s.ic == Expr(1)) || s.groups == Expr(1)) return "not depthwise";
  const auto taps = s.taps().constant();
  if (!taps || *taps > kMostTaps) return "more than 128 taps, or a symbolic number";
  if (s.lhs[0] != 1 || s.lhs[1] != 1 || s.lhs[2] != 1) return "the input is spread out";
  return "";
}

Tactic wide_tactic(const NodeContext& c, const Builder& b, const ConvShape& s, int64_t wide) {
  Tactic tactic{.name = "conv_depthwise_" + std::to_string(wide), .refusal = refusal_of(c, s)};
  if (!tactic.refusal.empty()) return tactic;
  const ValueId y = c.node.outputs[0];
  const Expr runs = ceil_div(s.out[2], wide), channels = s.groups * s.oc;
  const Expr total = s.n * channels * s.out[0] * s.out[1] * runs;
  const bool last = s.x_c == Expr(1) && !(s.x_at[2] == Expr(1));
  const bool by_fours = wide == 4 && !last && mod(s.out[2], 4) == Expr(0);
  Operand result = dst("y", y);
  result.vec4 =
      by_fours && is_dense(c.output().shape, b.strides_of(y)) &&
      mod(layout_of(c.graph, y).offset * Expr(size_bytes(c.output().dtype)), 16) == Expr(0);
  const auto literal = [](int64_t v) { return std::to_string(v) + "u"; };
  Step step{.kernel = "conv_depthwise",
            .defines = {{"WIDE", literal(wide)},
                        {"KD", literal(*s.kernel[0].constant())},
                        {"KH", literal(*s.kernel[1].constant())},
                        {"KW", literal(*s.kernel[2].constant())},
                        {"STRIDE_W", literal(s.stride[2])},
                        {"DIL_W", literal(s.dilation[2])},
                        {"LAST", last ? "1" : "0"},
                        {"V4", by_fours ? "1" : "0"},
                        {"BIAS", s.bias != kNoValue ? "1" : "0"}},
            .operands = {src("x", s.x), src("w", s.w), result},
            .params = {param("total", total), param("runs", runs), param("channels", channels)},
            .grid = one_each(total, kThreads),
            .local_size = {kThreads, 1, 1}};
  if (s.bias != kNoValue) step.operands.push_back(src("bias", s.bias));
  add_geometry(step, s);
  add_weight(step, s);
  for (Param& p : step.params) p.specialise = true;
  tactic.steps.push_back(std::move(step));
  return tactic;
}

}  // namespace

std::vector<Tactic> conv_depthwise_tactics(const NodeContext& c, const Builder& b,
                                           const ConvShape& s) {
  // Few outputs an invocation where there are few.
  const int64_t outputs = typical(c.graph, product(c.output().shape));
  std::vector<int64_t> widths = {4, 2, 1};
  if (outputs < compute_units(c.device) * 1024) widths = {1, 2, 4};
  std::vector<Tactic> tactics;
  for (const int64_t wide : widths) tactics.push_back(wide_tactic(c, b, s, wide));
  return tactics;
}

}  // namespace tv
