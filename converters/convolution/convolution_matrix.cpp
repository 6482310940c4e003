// Convolutions on matrix units as products of the packed weight with pixels that are gathered as
// they are needed: 16-bit floats as they are, fp32 in pieces (matrix.glsl), and signed bytes, whose
// zero points and offsets are taken from the sums (conv_matrix_bytes.glsl).
//
// Layouts: docs/design/0005-convolutions-and-layouts.md.

#include "converters/convolution/convolution_matrix.h"

#include <algorithm>

#include "converters/matmul/integer/matmul_integer.h"
#include "csrc/codegen/cooperative_matrix.h"
#include "csrc/graph/strided.h"
#include "csrc/settings.h"

namespace tv {

namespace {

constexpr size_t kMostTactics = 10;
constexpr size_t kMostOfDynamicScale = 6,
                 kMostBeside = 2;  // where fp32 becomes matrices in two ways
/// fp32 sums that are shorter gain nothing from the units' rate.
constexpr int64_t kShortestSplit = 16;

/// Whether the channels of a pixel are neighbours that can be read in chunks of so many.
bool has_chunks(const NodeContext& c, const ConvShape& s, int64_t chunk) {
  const auto whole = [&](const Expr& stride, const Expr& size) {
    return size == Expr(1) || divides(chunk, stride);
  };
  return divides(chunk, s.ic) && s.x_c == Expr(1) && whole(s.x_n, s.n) &&
         whole(s.x_at[0], s.in[0]) && whole(s.x_at[1], s.in[1]) && whole(s.x_at[2], s.in[2]) &&
         is_aligned(c, s.x);
}

/// Whether what a result's epilogue reads can be counted by its pixels (Operand::by_pixels).
bool counts_by_pixels(const NodeContext& c) {
  const Shape& shape = c.output().shape;
  return std::ranges::all_of(c.node.epilogue_inputs, [&](ValueId id) {
    const Shape& read = c.graph.value(id).shape;
    return read == shape || !(product(read) == product(shape));
  });
}

ConvMatrixProblem problem_of(const NodeContext& c, Builder& b, const ConvShape& s,
                             const SplitPrecision& precision, int64_t bytes) {
  ConvMatrixProblem q{.c = c,
                      .b = b,
                      .s = s,
                      .precision = precision,
                      .ic = *s.ic.constant(),
                      .oc = *s.oc.constant(),
                      .taps = *s.taps().constant(),
                      .bytes = bytes};
  const int64_t chunk = q.chunk();
  q.ic_chunks = div_up(q.ic, chunk);
  // Where padding each tap to whole chunks would cost more than a fifth.
  q.flat = q.taps > 1 && q.ic_chunks * chunk * 5 > q.ic * 6;
  q.x_last = !q.flat && has_chunks(c, s, chunk);
  q.steps = div_up(q.flat ? q.ic * q.taps : q.ic_chunks * chunk * q.taps, 2 * chunk);
  q.columns = s.n * s.pixels();
  q.y_pixels =
      divides(4, s.oc) && b.strides_of(c.node.outputs[0])[1] == Expr(1) && counts_by_pixels(c);
  return q;
}

bool is_x_shifted(const ConvMatrixProblem& q) {
  return q.bytes > 0 && (q.integers.unsigned_x || q.s.x_zero != kNoValue);
}

bool is_w_shifted(const ConvMatrixProblem& q) {
  return q.bytes > 0 && (q.integers.unsigned_w || q.s.w_zero != kNoValue);
}

/// Makes a launch on matrix units one of bytes, where they are that.
void use_bytes(const ConvMatrixProblem& q, Step& step) {
  step.defines.emplace_back("BYTES", text(q.bytes));
  if (q.bytes == 0) return;
  step.matrix = CooperativeMatrix{
      .input = DType::kI8, .sum = DType::kI32, .k = static_cast<uint32_t>(q.bytes)};
  step.defines.emplace_back("W_OFFSET", q.integers.unsigned_w ? "128" : "0");
}

/// What the kernel has to know of the weights of each output channel (conv_matrix_rows).
Step rows_step(const ConvMatrixProblem& q, ValueId rows) {
  const ConvShape& s = q.s;
  Step step{
      .kernel = "conv_matrix_rows",
      .operands = {src("w", s.w), dst("y", rows)},
      .params = {param("row_count", s.groups * s.oc), param("oc_count", s.oc),
                 param("ic_count", s.ic), fixed("k_h", s.kernel[1]), fixed("k_w", s.kernel[2])},
      .grid = Grid::flat_groups(s.groups * s.oc),
      .local_size = {32, 1, 1},
      .subgroup_size = 32};
  if (!s.is_planar()) step.params.push_back(fixed("k_d", s.kernel[0]));
  add_weight(step, s);
  return step;
}

Step pack_step_of(const ConvMatrixProblem& q, ValueId packed, ValueId rows, const Expr& lines,
                  int64_t k_steps) {
  const ConvShape& s = q.s;
  const Expr fragments = s.groups * lines * k_steps;
  Step step = pack_step("conv_matrix_pack", q.precision, fragments);
  use_bytes(q, step);
  step.defines.emplace_back("SIDE_A", flag(true));  // the weight's rows are those of the output
  step.defines.emplace_back("FLAT", flag(q.flat));
  step.defines.emplace_back("DYNAMIC_SCALE", flag(q.is_scaled()));
  step.operands = {src("w", s.w), dst("y", packed)};
  for (Param& p : std::vector<Param>{param("k_steps", Expr(k_steps)), param("m_lines", lines),
                                     param("oc_count", s.oc), param("ic_count", s.ic),
                                     param("ic_chunks", Expr(q.ic_chunks)),
                                     fixed("k_h", s.kernel[1]), fixed("k_w", s.kernel[2])}) {
    step.params.push_back(std::move(p));
  }
  step.grid = Grid::flat_groups(ceil_div(fragments, kPackedTogether));
  if (q.is_scaled()) step.operands.push_back(src("rows", rows));
  if (!s.is_planar()) step.params.push_back(fixed("k_d", s.kernel[0]));
  ConvShape plain = s;
  plain.w_zero = kNoValue;
  add_weight(step, plain);
  return step;
}

void add_params(const ConvMatrixProblem& q, Step& step) {
  add_geometry(step, q.s);
  if (q.precision.is_split()) add_weight(step, q.s);
  step.params.push_back(param("columns", q.columns));
  step.params.push_back(param("ic_chunks", Expr(q.ic_chunks)));
  // Everything that is constant becomes so in the kernel: its addresses are mostly sums of these.
  for (Param& p : step.params) p.specialise = true;
}

bool by_fours(const ConvMatrixProblem& q) { return mod(q.s.pixels(), 4) == Expr(0); }

Tactic describe(const ConvMatrixProblem& q, const ConvTile& t) {
  const std::string kind =
      q.bytes > 0 ? "conv_integer_matrix_" : "conv_matrix_" + q.precision.name() + "_";
  return {.name = kind + name_of(t.tile) + "_s" + text(t.ks),
          .refusal = workgroup_refusal(q.c.device, t.tile.threads(), q.shared_bytes(t)),
          .error = q.precision.error};
}

/// What is made of the weight before the convolution.
struct MadeWeight {
  ValueId packed = kNoValue;
  ValueId rows = kNoValue;  ///< of rows_step
  ValueId sums = kNoValue;  ///< of bytes
  ValueId any = kNoValue;   ///< any_shifted
  Expr lines;               ///< of fragments
};

/// What conv_matrix_bytes.glsl wants.
void add_integers(const ConvMatrixProblem& q, const MadeWeight& made, Step& step) {
  const ConvShape& s = q.s;
  const ConvIntegers& of = q.integers;
  const bool w_zero = s.w_zero != kNoValue, x_shifted = is_x_shifted(q);
  step.defines.insert(step.defines.end(), {{"X_OFFSET", of.unsigned_x ? "128" : "0"},
                                           {"X_FLIP", of.unsigned_x ? "0x80808080u" : "0u"},
                                           {"W_ZERO", flag(w_zero)},
                                           {"X_SHIFTED", flag(x_shifted)},
                                           {"W_SHIFTED", flag(is_w_shifted(q))},
                                           {"W_ANY", flag(made.any != kNoValue)}});
  if (x_shifted) step.operands.push_back(src("w_sums", made.sums));
  if (made.any != kNoValue) step.operands.push_back(src("w_any", made.any));
  if (!w_zero) return;
  step.operands.push_back(src("w_zero", s.w_zero));
  step.params.push_back(param("w_zero_step", s.w_zero_step));
}

Step conv_step(const ConvMatrixProblem& q, const ConvTile& t, const MadeWeight& of) {
  const ConvShape& s = q.s;
  const ValueId y = q.c.node.outputs[0];
  Operand result = dst("y", y);
  const bool dense = is_dense(q.c.output().shape, q.b.strides_of(y));
  result.vec4 = by_fours(q) && dense && is_aligned(q.c, y);
  result.by_pixels = q.y_pixels;
  Step step = matrix_step("conv_matrix", q.precision, t.tile);
  const std::pair<const char*, std::string> more[] = {
      {"KS", text(t.ks)},
      {"DYNAMIC_SCALE", flag(q.is_scaled())},
      {"FLAT", flag(q.flat)},
      {"WHOLE_IC", flag(divides(q.chunk(), s.ic))},
      {"P4", flag(by_fours(q))},
      {"X_LAST", flag(q.x_last)},
      {"Y_LAST", flag(q.b.strides_of(y)[1] == Expr(1))},
      {"Y_PIXELS", flag(q.y_pixels)},
      {"BIAS", flag(s.bias != kNoValue)}};
  step.defines.insert(step.defines.end(), std::begin(more), std::end(more));
  step.operands = {src("x", s.x), src("packed", of.packed), result};
  if (q.precision.is_split()) step.operands.push_back(src("w", s.w));
  if (q.is_scaled()) {
    step.operands.push_back(src("rows", of.rows));
    step.operands.back().vec4 = true;
  }
  if (s.bias != kNoValue) step.operands.push_back(src("bias", s.bias));
  use_bytes(q, step);
  const int64_t share = q.share(t);
  step.params = {param("share", Expr(share)), param("k_steps", Expr(share * t.ks * t.tile.wk)),
                 param("m_lines", of.lines)};
  if (q.bytes > 0) add_integers(q, of, step);
  step.grid = {{ceil_div(q.columns, t.tile.bn), ceil_div(s.oc, t.tile.bm), s.groups}};
  add_params(q, step);
  return step;
}

void emit(const ConvMatrixProblem& q, const ConvTile& t, Tactic& tactic) {
  const ConvShape& s = q.s;
  const int64_t k_steps = q.share(t) * t.ks * t.tile.wk;
  const Expr lines = ceil_div(s.oc, t.tile.bm) * (t.tile.bm / kFragment);
  MadeWeight made{.packed = q.b.scratch(
                      "packed", DType::kI32,
                      {s.groups * lines * (k_steps * fragment_uvec4s(q.precision) * kUvec4Words)}),
                  .lines = lines};
  if (is_x_shifted(q)) {
    ConvWords words = conv_words(q.c, q.b, s);
    made.sums = words.sums;
    tactic.steps = std::move(words.steps);
  }
  if (q.bytes > 0) {
    made.any = any_shifted(q.b,
                           {.zero = s.w_zero,
                            .count = s.w_zero_step == Expr(0) ? Expr(1) : s.groups * s.oc,
                            .step = s.w_zero_step,
                            .is_unsigned = q.integers.unsigned_w},
                           tactic.steps);
  }
  if (q.is_scaled()) {
    made.rows = q.b.scratch("rows", DType::kF32, {s.groups * s.oc * 4});
    tactic.steps.push_back(rows_step(q, made.rows));
  }
  tactic.steps.push_back(pack_step_of(q, made.packed, made.rows, lines, k_steps));
  tactic.steps.push_back(conv_step(q, t, made));
}

/// Ways to make matrices of fp32: float16 pieces of 11 bits each, where what else they lose is
/// found and computed again, and bfloat16 pieces of 8.
std::vector<SplitPrecision> ways(bool tf32) {
  using enum SplitPrecision::Scale;
  if (tf32) {
    return {{.input = DType::kF16, .scale = kRunning, .error = 0x1p-10},
            {.input = DType::kBF16, .pieces = 2, .error = 0x1p-16}};
  }
  return {{.input = DType::kF16, .pieces = 2, .scale = kRunning},
          {.input = DType::kBF16, .pieces = 3}};
}

std::vector<ConvMatrixProblem> problems_of_floats(const NodeContext& c, Builder& b,
                                                  const ConvShape& s) {
  std::vector<ConvMatrixProblem> problems;
  if (c.device.coop_matrices.empty()) return problems;
  for (const auto& way : split_precisions(c.dtype("input"), ways(!c.settings.disable_tf32))) {
    const ConvMatrixProblem q = problem_of(c, b, s, way, 0);
    if (!way.is_split() || q.ic * q.taps >= kShortestSplit) problems.push_back(q);
  }
  return problems;
}

/// In two dimensions, as conv_words are.
std::vector<ConvMatrixProblem> problems_of_bytes(const NodeContext& c, Builder& b,
                                                 const ConvShape& s) {
  const int64_t bytes = steps_of_bytes(c.device);
  if (bytes == 0 || !c.device.int8 || c.device.is_cpu() || !s.is_planar()) return {};
  ConvMatrixProblem q = problem_of(c, b, s, {.input = DType::kI8}, bytes);
  q.integers = {.unsigned_x = c.dtype("input") == DType::kU8,
                .unsigned_w = c.dtype("weight") == DType::kU8};
  return {q};
}

}  // namespace

int64_t ConvMatrixProblem::shared_bytes(const ConvTile& t) const {
  const MatrixTile& tile = t.tile;
  // A single subgroup needs no second stage of pixels to load while another multiplies.
  const int64_t stages = tile.output_threads() == kInvocations ? 1 : 2;
  const int64_t pixels = stages * tile.wk * precision.pieces * tile.bn * (t.ks * 2 + 1);
  const int64_t rows = tile.bm / tile.wm;  // of subgroups
  const int64_t sums = y_pixels ? tile.wk * tile.bn * (rows * 4 + 1) : tile.sum_uvec4s(kFragment);
  const int64_t largest = is_scaled() ? tile.subgroups() * 8 : 0;
  // Invocations that sum a pixel's bytes, and a word of each.
  const int64_t summing = x_last ? t.ks * 2 : std::max<int64_t>(tile.output_threads() / tile.bn, 1);
  const int64_t parts = is_w_shifted(*this) ? tile.bn * tile.wk * summing * 4 : 0;
  return kUvec4Bytes * std::max(pixels, sums) + largest + parts;
}

std::vector<Tactic> conv_matrix_tactics(const NodeContext& c, Builder& b, const ConvShape& s) {
  const bool known = s.ic.constant() && s.oc.constant() && s.taps().constant();
  if (!known || *s.oc.constant() < 8 || *s.ic.constant() < 3) return {};
  const std::vector<ConvMatrixProblem> problems =
      is_integer(c.dtype("input")) ? problems_of_bytes(c, b, s) : problems_of_floats(c, b, s);
  std::vector<MatrixCandidate<ConvMatrixProblem, ConvTile>> candidates;
  for (const ConvMatrixProblem& q : problems) {
    for (const ConvTile& t : conv_tiles(q.precision)) {
      candidates.push_back({&q, t, expected_us(q, t)});
    }
  }
  const auto most = [&](const ConvMatrixProblem& q) {
    if (problems.size() == 1) return kMostTactics;
    return q.is_scaled() ? kMostOfDynamicScale : kMostBeside;
  };
  return ranked_tactics(std::move(candidates), most, describe, emit);
}

}  // namespace tv
