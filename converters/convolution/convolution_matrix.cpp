// Convolutions on matrix units as products of the packed weight with pixels that are gathered as
// they are needed: 16-bit floats as they are, fp32 in pieces (matrix.glsl).
//
// Layouts: docs/design/0005-convolutions-and-layouts.md.

#include <algorithm>
#include <cmath>
#include <map>

#include "converters/convolution/convolution.h"
#include "csrc/graph/strided.h"

namespace tv {

namespace {

constexpr int64_t kChunk = 8;  // elements that are gathered together
constexpr size_t kMostTactics = 10;
constexpr size_t kMostOfDynamicScale = 6,
                 kMostBeside = 2;  // where fp32 becomes matrices in two ways

/// How operands become what the matrix units multiply.
struct SplitPrecision {
  DType input = DType::kF16;
  int64_t count = 1;      ///< 16-bit pieces of an fp32 operand
  bool dynamic_scale = false;  ///< float16 pieces, scaled as the kernel goes
  bool of_floats() const { return count > 1 || dynamic_scale; }
  std::string name() const {
    const std::string type = input == DType::kF16 ? "f16" : "bf16";
    return of_floats() ? type + "x" + std::to_string(count) : type;
  }
  /// Relative to the sizes of the terms, where it is more than fp32's.
  double error() const {
    if (!of_floats() || count == (dynamic_scale ? 2 : 3)) return 0;
    return dynamic_scale ? 0x1p-10 : 0x1p-16;
  }
  /// Products of two matrices that one product of operands takes.
  int64_t products() const { return count * (count + 1) / 2; }
};

/// One way to tile a convolution. Fields are macros of conv_matrix.comp.
struct Tile {
  int64_t bm, bn, wm, wn, wk, ks;
  int64_t sharers() const { return 32 * (bm / wm) * (bn / wn); }
  int64_t threads() const { return sharers() * wk; }
  std::string name(const SplitPrecision& pieces) const {
    const auto text = [](int64_t v) { return std::to_string(v); };
    return "conv_matrix_" + pieces.name() + "_" + text(bm) + "x" + text(bn) + "_w" + text(wm) +
           "x" + text(wn) + (wk > 1 ? "x" + text(wk) : "") + "_s" + text(ks);
  }
  int64_t shared_bytes(const SplitPrecision& pieces) const {
    const int64_t stages = bm == wm && bn == wn ? 1 : 2;
    const int64_t tiles = stages * wk * pieces.count * bn * (ks * 2 + 1);
    const int64_t sums = wk * (bm / wm) * 16 * (bn / 4 + 1);
    return 16 * std::max(tiles, sums) + (pieces.dynamic_scale ? threads() / 32 * 8 : 0);
  }
};

/// What the tactics of one convolution have in common.
struct Problem {
  const NodeContext& c;
  Builder& b;
  const ConvShape& s;
  SplitPrecision pieces;
  int64_t ic, oc, taps;
  bool flat;          ///< k runs over (ic, kh, kw) as they come
  int64_t ic_chunks;  ///< of a tap
  int64_t steps;      ///< of 16 k
  Expr columns;

  int64_t share(const Tile& t) const {
    const int64_t stages = (steps + t.ks - 1) / t.ks;
    return (stages + t.wk - 1) / t.wk;
  }
};

Problem problem_of(const NodeContext& c, Builder& b, const ConvShape& s,
                   const SplitPrecision& pieces) {
  Problem q{.c = c,
            .b = b,
            .s = s,
            .pieces = pieces,
            .ic = *s.ic.constant(),
            .oc = *s.oc.constant(),
            .taps = *s.taps().constant()};
  q.ic_chunks = (q.ic + kChunk - 1) / kChunk;
  // Where padding each tap to whole chunks would cost more than a fifth.
  q.flat = q.taps > 1 && q.ic_chunks * kChunk * 5 > q.ic * 6;
  const int64_t k = q.flat ? q.ic * q.taps : q.ic_chunks * kChunk * q.taps;
  q.steps = (k + 15) / 16;
  q.columns = s.n * s.pixels();
  return q;
}

std::string refusal(const Problem& q, const Tile& t) {
  const DeviceProfile& device = q.c.device;
  if (t.threads() > device.max_workgroup_invocations) {
    return "workgroups of " + text(t.threads()) + " invocations are not possible";
  }
  if (const int64_t bytes = t.shared_bytes(q.pieces); bytes > device.max_shared_bytes) {
    return "needs " + text(bytes) + " bytes of shared memory; there are " +
           text(device.max_shared_bytes);
  }
  return "";
}

/// Clocks of one compute unit for one stage of one group of subgroups: loads, shared memory and
/// products, one after the other. The constants are those of one GPU; only the order matters.
double stage_clocks(const Problem& q, const Tile& t, bool last) {
  const auto pieces = static_cast<double>(q.pieces.count), ks = static_cast<double>(t.ks);
  const auto pixels = static_cast<double>(t.bn) * ks;
  const double wide = q.pieces.of_floats() ? 2.0 : 1.0;  // bytes of an element, in units of 16 bits
  const double gather = pixels * (last ? 0.25 * wide : 1.7);
  const double split = q.pieces.dynamic_scale    ? (0.4 + 0.4 * pieces) * pixels
                       : q.pieces.count > 1 ? 0.8 * pieces * pixels
                                            : 0.0;
  const double warps = static_cast<double>(t.sharers()) / 32.0;
  const double fragments = static_cast<double>(t.wm + t.wn) / 16.0 * 4.0 * warps * pieces * ks;
  const double products = static_cast<double>(t.bm * t.bn) / 256.0 * 4.5 * ks *
                          static_cast<double>(q.pieces.products());
  return gather + split + 0.25 * pieces * pixels + fragments + products;
}

/// Microseconds that the rule expects: workgroups share compute units, of which each does one thing
/// at a time, and a stage takes at least the time of a load.
double expected_us(const Problem& q, const Tile& t, bool last) {
  const auto up = [](int64_t a, int64_t b) { return (a + b - 1) / b; };
  const int64_t units = q.c.device.compute_units > 0 ? q.c.device.compute_units : 64;
  const int64_t groups =
      up(typical(q.c.graph, q.columns), t.bn) * up(q.oc, t.bm) * typical(q.c.graph, q.s.groups);
  const int64_t chunks = t.bn * t.ks * 2 / t.sharers();  // that an invocation gathers
  const int64_t registers = std::min<int64_t>(
      255, 56 + t.wm * t.wn / 32 + 8 * t.ks * q.pieces.count * (t.wm / 16) + chunks * 10);
  const int64_t resident = std::max<int64_t>(
      1, std::min(65536 / (registers * t.threads()), 200000 / t.shared_bytes(q.pieces)));
  const int64_t at_once = std::min(resident, up(groups, units));
  const auto rounds = static_cast<double>(up(groups, units * at_once));
  const auto stages = static_cast<double>(q.share(t));
  const double chain = stages * (800.0 + 60.0 * static_cast<double>(t.ks * q.pieces.count));
  const double work = static_cast<double>(at_once * t.wk) * stages * stage_clocks(q, t, last);
  const double end = 300.0 + 500.0 * static_cast<double>(t.wm) / 16.0 +
                     static_cast<double>(t.wk * t.bm * t.bn) / 32.0;
  return rounds * (std::max(chain, work) + 0.3 * std::min(chain, work) + end) / 1700.0;
}

/// What the kernel has to know of the weights of each output channel (conv_matrix_rows).
Step rows_step(const Problem& q, ValueId rows) {
  const ConvShape& s = q.s;
  Step step{
      .kernel = "conv_matrix_rows",
      .operands = {src("w", s.w), dst("y", rows)},
      .params = {param("row_count", s.groups * s.oc), param("oc_count", s.oc),
                 param("ic_count", s.ic), fixed("k_h", s.kernel[1]), fixed("k_w", s.kernel[2])},
      .grid = Grid::flat_groups(s.groups * s.oc),
      .local_size = {32, 1, 1},
      .subgroup_size = 32};
  add_weight(step, s, "hw");
  return step;
}

Step pack_step(const Problem& q, ValueId packed, ValueId rows, const Expr& lines, int64_t k_steps) {
  const ConvShape& s = q.s;
  const Expr fragments = s.groups * lines * k_steps;
  Step step{
      .kernel = "conv_matrix_pack",
      .defines = {{"PIECES", text(q.pieces.count)},
                  {"FLAT", flag(q.flat)},
                  {"DYNAMIC_SCALE", flag(q.pieces.dynamic_scale)},
                  {"TO_16", q.pieces.input == DType::kF16 ? "tv_to_f16" : "tv_to_bf16"}},
      .operands = {src("w", s.w), dst("y", packed)},
      .params = {param("fragments", fragments), param("k_steps", Expr(k_steps)),
                 param("m_lines", lines), param("oc_count", s.oc), param("ic_count", s.ic),
                 param("ic_chunks", Expr(q.ic_chunks)), fixed("k_h", s.kernel[1]),
                 fixed("k_w", s.kernel[2])},
      .grid = Grid::flat_groups(ceil_div(fragments, 8)),
      .local_size = {256, 1, 1},
      .subgroup_size = 32,
      .matrix = CooperativeMatrix{.input = q.pieces.input, .denormals = q.pieces.dynamic_scale}};
  if (q.pieces.dynamic_scale) step.operands.push_back(src("rows", rows));
  add_weight(step, s, "hw");
  return step;
}

void add_params(const Problem& q, Step& step) {
  add_geometry(step, q.s, "hw");
  if (q.pieces.of_floats()) add_weight(step, q.s, "hw");
  step.params.push_back(param("columns", q.columns));
  step.params.push_back(param("ic_chunks", Expr(q.ic_chunks)));
  // Everything that is constant becomes so in the kernel: its addresses are mostly sums of these.
  for (Param& p : step.params) p.specialise = true;
}

bool starts_chunk(const Graph& graph, ValueId id) {
  return mod(layout_of(graph, id).offset * Expr(size_bytes(graph.value(id).dtype)), 16) == Expr(0);
}

/// Whether the channels of a pixel are neighbours that can be read in chunks.
bool has_chunks(const Problem& q) {
  const ConvShape& s = q.s;
  const auto whole = [](const Expr& stride, const Expr& size) {
    return size == Expr(1) || mod(stride, kChunk) == Expr(0);
  };
  return !q.flat && q.ic % kChunk == 0 && s.x_c == Expr(1) && whole(s.x_n, s.n) &&
         whole(s.x_at[1], s.in[1]) && whole(s.x_at[2], s.in[2]) && starts_chunk(q.c.graph, s.x);
}

bool by_fours(const Problem& q) { return mod(q.s.pixels(), 4) == Expr(0); }

Tactic tactic_of(const Problem& q, const Tile& t) {
  const ConvShape& s = q.s;
  Tactic tactic{.name = t.name(q.pieces), .refusal = refusal(q, t), .error = q.pieces.error()};
  if (!tactic.refusal.empty()) return tactic;
  const int64_t share = q.share(t), k_steps = share * t.ks * t.wk;
  const Expr lines = ceil_div(s.oc, t.bm) * (t.bm / 16);
  const ValueId packed =
      q.b.scratch("packed", DType::kI32, {s.groups * lines * (k_steps * q.pieces.count * 32 * 4)});
  ValueId rows = kNoValue;
  if (q.pieces.dynamic_scale) {
    rows = q.b.scratch("rows", DType::kF32, {s.groups * s.oc * 4});
    tactic.steps.push_back(rows_step(q, rows));
  }
  tactic.steps.push_back(pack_step(q, packed, rows, lines, k_steps));

  const ValueId y = q.c.node.outputs[0];
  Operand result = dst("y", y);
  result.vec4 =
      by_fours(q) && is_dense(q.c.output().shape, q.b.strides_of(y)) && starts_chunk(q.c.graph, y);
  Step step{
      .kernel = "conv_matrix",
      .defines = {{"BM", text(t.bm)},
                  {"BN", text(t.bn)},
                  {"WM", text(t.wm)},
                  {"WN", text(t.wn)},
                  {"WK", text(t.wk)},
                  {"KS", text(t.ks)},
                  {"PIECES", text(q.pieces.count)},
                  {"DYNAMIC_SCALE", flag(q.pieces.dynamic_scale)},
                  {"FLAT", flag(q.flat)},
                  {"WHOLE_IC", flag(q.ic % kChunk == 0)},
                  {"P4", flag(by_fours(q))},
                  {"X_LAST", flag(has_chunks(q))},
                  {"Y_LAST", flag(q.b.strides_of(y)[1] == Expr(1))},
                  {"BIAS", flag(s.bias != kNoValue)}},
      .operands = {src("x", s.x), src("packed", packed), result},
      .params = {param("share", Expr(share)), param("k_steps", Expr(k_steps)),
                 param("m_lines", lines)},
      .grid = {{ceil_div(q.columns, t.bn), ceil_div(s.oc, t.bm), s.groups}},
      .local_size = {static_cast<uint32_t>(t.threads()), 1, 1},
      .subgroup_size = 32,
      .matrix = CooperativeMatrix{.input = q.pieces.input, .denormals = q.pieces.dynamic_scale}};
  if (q.pieces.of_floats()) step.operands.push_back(src("w", s.w));
  if (q.pieces.dynamic_scale) {
    step.operands.push_back(src("rows", rows));
    step.operands.back().vec4 = true;
  }
  if (s.bias != kNoValue) step.operands.push_back(src("bias", s.bias));
  add_params(q, step);
  tactic.steps.push_back(std::move(step));
  return tactic;
}

/// What a sweep on one device kept; the rule orders them by the convolution's sizes.
std::vector<Tile> tiles_16() {
  return {{16, 16, 16, 16, 8, 4},  {16, 16, 16, 16, 16, 4},  {32, 16, 32, 16, 8, 4},
          {16, 16, 16, 16, 18, 4}, {16, 32, 16, 32, 9, 4},   {32, 16, 32, 16, 16, 4},
          {16, 32, 16, 32, 4, 4},  {16, 32, 16, 32, 8, 4},   {16, 32, 16, 32, 16, 2},
          {32, 32, 32, 32, 4, 2},  {32, 32, 32, 32, 4, 4},   {32, 32, 32, 32, 8, 4},
          {32, 64, 32, 32, 4, 2},  {64, 32, 32, 32, 2, 4},   {64, 32, 32, 32, 4, 2},
          {64, 64, 32, 32, 1, 2},  {64, 64, 32, 32, 2, 2},   {128, 64, 64, 32, 1, 2},
          {128, 64, 64, 32, 2, 2}, {128, 128, 64, 32, 1, 2}, {256, 64, 64, 32, 1, 2}};
}

std::vector<Tile> tiles_32() {
  return {{16, 16, 16, 16, 8, 2}, {16, 16, 16, 16, 16, 1}, {16, 16, 16, 16, 9, 2},
          {16, 32, 16, 32, 9, 1}, {16, 32, 16, 32, 4, 2},  {16, 32, 16, 32, 8, 1},
          {32, 16, 32, 16, 8, 2}, {32, 32, 32, 32, 4, 2},  {64, 32, 32, 32, 2, 2},
          {64, 32, 32, 32, 4, 1}, {64, 64, 32, 32, 1, 1},  {64, 64, 32, 32, 1, 2},
          {64, 64, 32, 32, 2, 1}, {128, 64, 64, 32, 1, 2}, {128, 64, 32, 32, 1, 2},
          {128, 32, 32, 32, 1, 2}};
}

/// The same of fp32 in one float16 piece, and in two.
std::vector<Tile> tiles_one_piece() {
  return {{16, 16, 16, 16, 8, 4},  {16, 16, 16, 16, 16, 4}, {32, 16, 32, 16, 8, 4},
          {32, 16, 32, 16, 16, 4}, {16, 32, 16, 32, 8, 4},  {32, 32, 32, 32, 4, 2},
          {32, 32, 32, 32, 4, 4},  {32, 32, 32, 32, 8, 4},  {64, 32, 32, 32, 4, 2},
          {64, 32, 32, 32, 2, 4},  {64, 64, 32, 32, 1, 2},  {64, 64, 32, 32, 2, 2},
          {128, 64, 64, 32, 1, 2}, {128, 64, 64, 32, 2, 2}, {128, 128, 64, 32, 1, 2}};
}

std::vector<Tile> tiles_two_pieces() {
  return {{16, 16, 16, 16, 16, 2}, {16, 16, 16, 16, 8, 4},  {32, 16, 32, 16, 8, 2},
          {32, 16, 32, 16, 8, 4},  {32, 16, 32, 16, 16, 2}, {16, 32, 16, 32, 4, 2},
          {32, 32, 32, 32, 4, 2},  {32, 32, 32, 32, 8, 2},  {64, 32, 32, 32, 4, 1},
          {64, 32, 32, 32, 2, 2},  {64, 64, 32, 32, 1, 2},  {64, 64, 32, 32, 2, 1},
          {128, 64, 32, 32, 1, 2}, {128, 64, 64, 32, 1, 2}, {128, 32, 32, 32, 1, 2}};
}

std::vector<Tile> tiles_of(const SplitPrecision& pieces) {
  if (!pieces.of_floats()) return tiles_16();
  if (!pieces.dynamic_scale) return tiles_32();
  return pieces.count == 1 ? tiles_one_piece() : tiles_two_pieces();
}

/// fp32 sums that are shorter gain nothing from the units' rate.
constexpr int64_t kShortestSplit = 16;

/// Ways to make matrices of the operands' dtype; none where the units have no such product.
std::vector<SplitPrecision> ways(const NodeContext& c) {
  const int64_t more = c.settings.disable_tf32 ? 1 : 0;  // pieces
  switch (c.dtype("input")) {
    case DType::kF16:
      return {{DType::kF16, 1}};
    case DType::kBF16:
      return {{DType::kBF16, 1}};
    case DType::kF32:
      return {{DType::kF16, 1 + more, true}, {DType::kBF16, 2 + more}};
    default:
      return {};
  }
}

struct Candidate {
  const Problem* problem;
  Tile tile;
  double time;
};

/// Every tile of every way, best first by rule.
std::vector<Candidate> candidates_of(const std::vector<Problem>& problems) {
  std::vector<Candidate> candidates;
  for (const Problem& q : problems) {
    for (const Tile& t : tiles_of(q.pieces)) {
      candidates.push_back({&q, t, expected_us(q, t, has_chunks(q))});
    }
  }
  std::stable_sort(candidates.begin(), candidates.end(),
                   [](const Candidate& s, const Candidate& t) { return s.time < t.time; });
  return candidates;
}

}  // namespace

std::vector<Tactic> conv_matrix_tactics(const NodeContext& c, Builder& b, const ConvShape& s) {
  const bool plane = s.out[0] == Expr(1) && s.kernel[0] == Expr(1) && s.in[0] == Expr(1);
  const bool known = s.ic.constant() && s.oc.constant() && s.taps().constant();
  if (!plane || !known || c.device.coop_matrices.empty()) return {};
  std::vector<Problem> problems;
  for (const SplitPrecision& pieces : ways(c)) {
    const Problem q = problem_of(c, b, s, pieces);
    if (q.oc < 8 || q.ic < 3 || (pieces.of_floats() && q.ic * q.taps < kShortestSplit)) continue;
    problems.push_back(q);
  }
  std::vector<Tactic> tactics;
  std::map<const Problem*, size_t> kept;
  for (const Candidate& candidate : candidates_of(problems)) {
    const Problem& q = *candidate.problem;
    const size_t most = problems.size() == 1 ? kMostTactics
                        : q.pieces.dynamic_scale  ? kMostOfDynamicScale
                                             : kMostBeside;
    if (kept[&q] == most) {
      tactics.push_back(
          {.name = candidate.tile.name(q.pieces), .refusal = "expected to be slower"});
      continue;
    }
    tactics.push_back(tactic_of(q, candidate.tile));
    if (tactics.back().refusal.empty()) ++kept[&q];
  }
  return tactics;
}

}  // namespace tv
