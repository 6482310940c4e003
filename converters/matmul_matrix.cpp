// Products on matrix units: 16-bit floats as they are, fp32 in pieces (kernels/matrix.glsl).
//
// Three families. "shared": a, and b where it is not packed, pass through shared memory. "rows": b in
// fragment order, rows of a through a patch of each subgroup's own: for few rows. "packed": both in
// fragment order, whatever their strides. A constant b is packed once per set of weights.

#include <algorithm>

#include "converters/matmul.h"
#include "csrc/graph/strided.h"

namespace tv {
namespace {

constexpr int64_t kFragment = 16;     // rows, columns and steps of k of one matrix
constexpr int64_t kChunk = 8;         // elements that a kernel loads at once
constexpr int64_t kUnitWords = 4;     // 32-bit words of a unit of 16 bytes
constexpr size_t kMostTactics = 12;

std::string text(int64_t value) { return std::to_string(value); }

/// How operands become what the matrix units multiply.
struct Pieces {
  DType input = DType::kF16;
  int64_t count = 1;      ///< 16-bit pieces of an fp32 operand
  int64_t promote = 0;    ///< steps of 16 summed inside of the unit; 0: all
  std::string name() const {
    const std::string type = input == DType::kF16 ? "f16" : "bf16";
    return count == 1 ? type : type + "x" + text(count);
  }
};

/// One way to tile a product. Fields are macros of the kernels.
struct MatrixTile {
  enum Family { kShared, kRows, kPacked } family = kShared;
  int64_t bm, bn, bk, wm, wn, wk = 1;
  int64_t ring = 0;        ///< shared: steps of a packed b in flight, 0: not packed
  bool ahead = false;      ///< shared, not packed: fragments a step ahead
  int64_t per_unit = 1;    ///< workgroups that a compute unit holds at once
  int64_t warps() const { return bm / wm * (bn / wn) * wk; }
  int64_t threads() const { return 32 * warps(); }
  bool packs_b() const { return family != kShared || ring > 0; }
};

/// Everything that the tactics of one product have in common.
struct Problem {
  const NodeContext& c;
  Builder& b;
  const Product& p;
  Pieces pieces;
  ValueId a, w, y;
  int64_t m, n, k, z;      ///< typical sizes
  bool a_rows, a_cols;     ///< chunks along k, along m can be loaded
  bool b_rows, b_cols;     ///< chunks along n, along k can be loaded
};

bool divides(int64_t divisor, const Expr& value) { return mod(value, divisor) == Expr(0); }

bool is_aligned(const Problem& q, ValueId id) {
  const Value& value = q.c.graph.value(id);
  return divides(16, layout_of(q.c.graph, id).offset * Expr(size_bytes(value.dtype)));
}

/// Whether chunks of neighbours along a dimension of `count` elements and stride `along` lie at
/// multiples of a chunk.
bool has_chunks(const Expr& count, const Expr& along, const Expr& across, const Shape& batch) {
  return along == Expr(1) && divides(kChunk, count) && divides(kChunk, across) &&
         std::all_of(batch.begin(), batch.end(), [](const Expr& s) { return divides(kChunk, s); });
}

Problem problem_of(const NodeContext& c, Builder& b, const Product& p, const Pieces& pieces) {
  Problem q{.c = c, .b = b, .p = p, .pieces = pieces, .a = c.node.input("a"),
            .w = c.node.input("b"), .y = c.node.outputs[0]};
  q.m = typical(c.graph, p.m);
  q.n = typical(c.graph, p.n);
  q.k = typical(c.graph, p.k);
  q.z = typical(c.graph, p.batch.count());
  q.a_rows = is_aligned(q, q.a) && has_chunks(p.k, p.a_k, p.a_m, p.batch.a);
  q.a_cols = is_aligned(q, q.a) && has_chunks(p.m, p.a_m, p.a_k, p.batch.a);
  q.b_rows = is_aligned(q, q.w) && has_chunks(p.n, p.b_n, p.b_k, p.batch.b);
  q.b_cols = is_aligned(q, q.w) && has_chunks(p.k, p.b_k, p.b_n, p.batch.b);
  return q;
}

/// One side of a product in fragment order.
struct PackedSide {
  ValueId value = kNoValue;
  Expr z_units;  ///< units of one matrix of the batch; 0: the batch shares it
};

/// Appends the launch that packs an operand: `k_steps` steps of 16, spans padded to `multiple`, and
/// room for `slack` steps that kernels fetch past the end.
PackedSide add_packing(const Problem& q, bool side_a, const Expr& k_steps, int64_t multiple,
                       int64_t slack, std::vector<Step>& steps) {
  const Product& p = q.p;
  const Expr spans = round_up(side_a ? p.m : p.n, multiple);
  const Shape& strides = side_a ? p.batch.a : p.batch.b;
  const bool batched =
      !std::all_of(strides.begin(), strides.end(), [](const Expr& s) { return s == Expr(0); });
  const Expr fragments = ceil_div(spans, kFragment) * k_steps;
  const int64_t unit = q.pieces.count * 32;
  PackedSide side;
  side.z_units = batched ? fragments * unit : Expr(0);
  const Expr matrices = batched ? p.batch.count() : Expr(1);
  side.value = q.b.scratch(side_a ? "packed_a" : "packed", DType::kI32,
                           {(matrices * fragments + slack) * (unit * kUnitWords)});
  Step step{.kernel = "matmul_pack",
            .defines = {{"SIDE_A", side_a ? "1" : "0"},
                        {"PIECES", text(q.pieces.count)},
                        {"TO_16", q.pieces.input == DType::kF16 ? "tv_to_f16" : "tv_to_bf16"}},
            .operands = {src("x", side_a ? q.a : q.w), dst("y", side.value)},
            .params = {param("fragments", fragments), param("k_steps", k_steps),
                       param("span_count", side_a ? p.m : p.n), param("k_count", p.k),
                       param("s_span", side_a ? p.a_m : p.b_n),
                       param("s_k", side_a ? p.a_k : p.b_k), param("y_z", side.z_units)},
            .grid = {{ceil_div(fragments, 8), 1, matrices}},
            .local_size = {256, 1, 1},
            .subgroup_size = 32,
            .matrix = MatrixUnits{.input = q.pieces.input}};
  add_batch(step, p.batch, strides, "s");
  steps.push_back(std::move(step));
  return side;
}

std::string flag(bool value) { return value ? "1" : "0"; }

/// What every product kernel gets.
Step product_step(const Problem& q, const MatrixTile& t) {
  const Product& p = q.p;
  const Expr tiles = ceil_div(p.m, t.bm) * ceil_div(p.n, t.bn);
  const View out = layout_of(q.c.graph, q.y);
  const Value& y = q.c.graph.value(q.y);
  const bool by_fours = divides(4, p.n);
  Operand result = dst("y", q.y);
  result.vec4 = by_fours && is_dense(y.shape, out.strides) && is_aligned(q, q.y);
  Step step{.defines = {{"BM", text(t.bm)},
                        {"BN", text(t.bn)},
                        {"WM", text(t.wm)},
                        {"WN", text(t.wn)},
                        {"WK", text(t.wk)},
                        {"GROUP", "8u"},
                        {"PIECES", text(q.pieces.count)},
                        {"N4", flag(by_fours)},
                        {"WHOLE_M", flag(divides(t.bm, p.m))},
                        {"WHOLE_N", flag(divides(t.bn, p.n))}},
            .operands = {result},
            .params = {fixed("m_count", p.m), fixed("n_count", p.n), fixed("k_count", p.k)},
            .grid = {{tiles, 1, p.batch.count()}},
            .local_size = {static_cast<uint32_t>(t.threads()), 1, 1},
            .subgroup_size = 32,
            .matrix = MatrixUnits{.input = q.pieces.input}};
  return step;
}

/// a and b with the strides that what is not finite is computed again from, or that rows are read
/// with.
void add_sources(const Problem& q, bool reads_a, bool reads_b, Step& step) {
  const Product& p = q.p;
  const bool again = q.pieces.count > 1;
  if (reads_a || again) {
    step.operands.push_back(src("a", q.a));
    step.params.push_back(fixed("a_m", p.a_m));
    step.params.push_back(fixed("a_k", p.a_k));
    add_batch(step, p.batch, p.batch.a, "az");
  }
  if (reads_b || again) {
    step.operands.push_back(src("b", q.w));
    step.params.push_back(fixed("b_k", p.b_k));
    step.params.push_back(fixed("b_n", p.b_n));
    add_batch(step, p.batch, p.batch.b, "bz");
  }
}

void add_packed(const PackedSide& side, const std::string& name, Step& step) {
  step.operands.push_back(src(name, side.value));
  step.params.push_back(fixed(name + "_z", side.z_units));
}

void emit_shared(const Problem& q, const MatrixTile& t, Tactic& tactic) {
  const Product& p = q.p;
  const Expr k_steps = floordiv(round_up(p.k, 2 * t.bk), kFragment);
  const bool a_cols = !q.a_rows, b_cols = !q.b_rows;
  PackedSide packed;
  if (t.ring > 0) packed = add_packing(q, false, k_steps, t.bn, t.ring * t.wk, tactic.steps);
  Step step = product_step(q, t);
  step.kernel = "matmul_matrix";
  const std::pair<std::string, std::string> more[] = {
      {"PROMOTE", text(std::min(q.pieces.promote, t.bk / kFragment / t.wk))},
      {"BK", text(t.bk)},           {"AHEAD", flag(t.ahead)},
      {"PACKED", text(t.ring)},     {"A_COLS", flag(a_cols)},
      {"B_COLS", flag(b_cols)},     {"WHOLE_K", flag(divides(2 * t.bk, p.k))}};
  step.defines.insert(step.defines.end(), std::begin(more), std::end(more));
  add_sources(q, true, t.ring == 0, step);
  step.params.push_back(fixed("a_ld", a_cols ? p.a_k : p.a_m));
  if (t.ring > 0) {
    add_packed(packed, "packed", step);
    step.params.push_back(fixed("k_steps", k_steps));
  } else {
    step.params.push_back(fixed("b_ld", b_cols ? p.b_n : p.b_k));
  }
  tactic.steps.push_back(std::move(step));
}

/// Steps of k that the subgroups of a fragments kernel take, and how many at once.
struct Share {
  Expr each, k_steps;
  int64_t unroll = 1, ring = 1;
};

Share share_of(const Problem& q, const MatrixTile& t) {
  const Expr each = ceil_div(ceil_div(q.p.k, kFragment), t.wk);
  const int64_t most = t.wm * t.wn >= 2048 ? 2 : t.family == MatrixTile::kRows && t.wm > 32 ? 2 : 4;
  Share s{.unroll = most};
  if (const auto count = each.constant()) {
    // Without a remainder where a few steps more or less do it.
    for (const int64_t unroll : {most, most + 2, most - 1, most + 1}) {
      if (unroll > 0 && *count % unroll == 0) {
        s.unroll = unroll;
        break;
      }
    }
    s.unroll = std::min(s.unroll, std::max<int64_t>(1, *count));
  }
  s.ring = s.unroll > 4 && s.unroll % 2 == 0 ? s.unroll / 2 : s.unroll;
  if (t.wm * t.wn >= 2048 || q.pieces.count > 1) s.ring = s.unroll % 2 == 0 ? s.unroll / 2 : 1;
  s.each = round_up(each, s.unroll);
  s.k_steps = s.each * t.wk;
  return s;
}

void emit_fragments(const Problem& q, const MatrixTile& t, Tactic& tactic) {
  const bool pack_a = t.family == MatrixTile::kPacked;
  const Share s = share_of(q, t);
  const PackedSide b = add_packing(q, false, s.k_steps, t.bn, s.ring, tactic.steps);
  PackedSide a;
  if (pack_a) a = add_packing(q, true, s.k_steps, t.bm, s.ring, tactic.steps);
  Step step = product_step(q, t);
  step.kernel = "matmul_fragments";
  const std::pair<std::string, std::string> more[] = {
      {"A_PACKED", flag(pack_a)},
      {"PROMOTE", flag(q.pieces.promote > 0)},
      {"UNROLL", text(s.unroll)},
      {"RING", text(s.ring)},
      {"WHOLE_K", flag(divides(kFragment * s.unroll * t.wk, q.p.k))}};
  step.defines.insert(step.defines.end(), std::begin(more), std::end(more));
  add_sources(q, !pack_a, false, step);
  if (!pack_a) step.params.push_back(fixed("a_ld", q.p.a_m));
  add_packed(b, "packed", step);
  if (pack_a) add_packed(a, "packed_a", step);
  step.params.push_back(fixed("k_steps", s.k_steps));
  step.params.push_back(fixed("share", s.each));
  tactic.steps.push_back(std::move(step));
}

/// Bytes of shared memory, as the kernels declare it.
int64_t shared_bytes(const Problem& q, const MatrixTile& t) {
  const int64_t pieces = q.pieces.count;
  int64_t units = t.wk > 1 ? t.wk * t.bm * (t.bn / 4 + 1)
                           : t.bm / t.wm * (t.bn / t.wn) * 16 * (t.wn / 4 + 1);
  if (t.family == MatrixTile::kShared) {
    const auto tile = [](int64_t rows, int64_t cols) { return rows * (cols / kChunk + 1); };
    int64_t stage = q.a_rows ? tile(t.bm, t.bk) : tile(t.bk, t.bm);
    if (t.ring == 0) stage += q.b_rows ? tile(t.bk, t.bn) : tile(t.bn, t.bk);
    units = std::max(units, 2 * pieces * stage);
  } else if (t.family == MatrixTile::kRows) {
    units = std::max(units, pieces * t.wm * (share_of(q, t).unroll * 2 + 1) * t.warps());
  }
  return units * 16;
}

/// Time that the rule expects, in arbitrary units: workgroups share compute units evenly, each
/// of which needs several subgroups to be busy, and a chain of dependent steps takes its time.
double expected(const Problem& q, const MatrixTile& t) {
  const auto up = [](int64_t a, int64_t b) { return (a + b - 1) / b; };
  const int64_t units = q.c.device.compute_units > 0 ? q.c.device.compute_units : 64;
  const int64_t groups = up(q.m, t.bm) * up(q.n, t.bn) * std::max<int64_t>(q.z, 1);
  const int64_t on_unit = up(groups, units);
  const double steps = static_cast<double>(up(up(q.k, 16), t.wk));
  const double products = static_cast<double>(t.bm * t.bn * t.wk) / 256.0 * steps *
                          static_cast<double>(q.pieces.count * (q.pieces.count + 1) / 2);
  const auto busy = static_cast<double>(std::min(on_unit, t.per_unit) * t.warps());
  // Larger tiles of a subgroup load less for each product; packed operands need no shared memory.
  const double reuse = static_cast<double>(t.wm * t.wn) / static_cast<double>(t.wm + t.wn);
  const double feed = (t.family == MatrixTile::kShared ? 1.0 : 1.25) + 10.0 / reuse +
                      (t.family == MatrixTile::kShared && t.ring == 0 ? 0.25 : 0.0);
  const double rate = std::min(1.0, busy / 4.0) * 4.0;  // products in flight
  const double work = static_cast<double>(on_unit) * products * feed / rate;
  const double chain = steps * (t.family == MatrixTile::kShared ? 40.0 : 25.0) +
                       static_cast<double>(t.wk - 1) * 15.0;
  double packing = 0;
  if (t.packs_b() && !q.b.is_constant(q.w)) {
    packing += 2000.0 + static_cast<double>(q.n * q.k * q.z) / 4000.0;
  }
  if (t.family == MatrixTile::kPacked && !q.b.is_constant(q.a)) {
    packing += 2000.0 + static_cast<double>(q.m * q.k * q.z) / 4000.0;
  }
  return std::max(work, chain) + 0.2 * std::min(work, chain) + packing;
}

std::string refusal(const Problem& q, const MatrixTile& t) {
  const DeviceProfile& device = q.c.device;
  const Product& p = q.p;
  if (p.batch.sizes.size() > kMaxBatchDims) return "more than 3 batch dimensions";
  if (p.batch.count().bounds(q.c.graph.symbols).second > device.max_grid[2]) {
    return "more than " + text(device.max_grid[2]) + " matrices";
  }
  if (p.k.bounds(q.c.graph.symbols).first < 1) return "k may be 0";
  if (t.family == MatrixTile::kShared && !q.a_rows && !q.a_cols) {
    return "a is read in chunks of 8; its strides or sizes are no multiples of that";
  }
  if (t.family == MatrixTile::kRows && !q.a_rows) {
    return "rows of a are read in chunks of 8; its strides or k are no multiples of that";
  }
  if (!t.packs_b() && !q.b_rows && !q.b_cols) {
    return "b is read in chunks of 8; its strides or sizes are no multiples of that";
  }
  if (t.threads() > device.max_workgroup_invocations) {
    return "workgroups of " + text(t.threads()) + " invocations are not possible";
  }
  if (const int64_t bytes = shared_bytes(q, t); bytes > device.max_shared_bytes) {
    return "needs " + text(bytes) + " bytes of shared memory; there are " +
           text(device.max_shared_bytes);
  }
  return "";
}

std::string tactic_name(const Problem& q, const MatrixTile& t) {
  static const char* kFamilies[] = {"shared", "rows", "packed"};
  std::string text_ = "matmul_" + std::string(kFamilies[t.family]) + "_" + q.pieces.name() + "_" +
                      text(t.bm) + "x" + text(t.bn);
  if (t.family == MatrixTile::kShared) text_ += "x" + text(t.bk);
  text_ += "_w" + text(t.wm) + "x" + text(t.wn);
  if (t.wk > 1) text_ += "x" + text(t.wk);
  if (t.family == MatrixTile::kShared && t.ring > 0) text_ += "_ring" + text(t.ring);
  if (t.ahead) text_ += "_ahead";
  return text_;
}

using F = MatrixTile;

// Shapes that a sweep on one device kept; the rule orders them by the product's sizes.
const std::vector<MatrixTile>& tiles_16() {
  static const std::vector<MatrixTile> tiles = {
      {F::kShared, 64, 256, 128, 64, 64, 1, 2, false, 1},
      {F::kShared, 64, 256, 64, 64, 64, 1, 1, false, 2},
      {F::kShared, 64, 128, 64, 64, 32, 1, 2, false, 2},
      {F::kShared, 64, 64, 64, 32, 32, 1, 2, false, 3},
      {F::kShared, 128, 128, 32, 64, 64, 1, 0, true, 1},
      {F::kShared, 128, 64, 32, 64, 32, 1, 0, true, 2},
      {F::kShared, 64, 64, 32, 32, 32, 1, 0, true, 3},
      {F::kShared, 32, 64, 64, 32, 32, 2, 0, false, 3},
      {F::kShared, 32, 32, 128, 32, 32, 4, 0, false, 2},
      {F::kRows, 64, 64, 0, 32, 32, 2, 0, false, 2},
      {F::kRows, 64, 32, 0, 32, 32, 2, 0, false, 3},
      {F::kRows, 64, 64, 0, 32, 64, 2, 0, false, 2},
      {F::kRows, 32, 64, 0, 32, 64, 4, 0, false, 2},
      {F::kRows, 32, 48, 0, 32, 48, 4, 0, false, 3},
      {F::kRows, 32, 32, 0, 32, 32, 4, 0, false, 3},
      {F::kRows, 16, 32, 0, 16, 32, 8, 0, false, 2},
      {F::kRows, 16, 16, 0, 16, 16, 8, 0, false, 3},
      {F::kRows, 16, 16, 0, 16, 16, 16, 0, false, 2},
      {F::kPacked, 64, 128, 0, 32, 32, 2, 0, false, 1},
      {F::kPacked, 32, 48, 0, 32, 48, 4, 0, false, 3},
      {F::kPacked, 16, 16, 0, 16, 16, 8, 0, false, 3},
  };
  return tiles;
}

const std::vector<MatrixTile>& tiles_32() {
  static const std::vector<MatrixTile> tiles = {
      {F::kShared, 64, 256, 16, 64, 64, 1, 1, false, 1},
      {F::kShared, 64, 256, 32, 64, 32, 1, 2, false, 1},
      {F::kShared, 64, 128, 32, 64, 32, 1, 2, false, 2},
      {F::kShared, 64, 64, 32, 32, 32, 1, 2, false, 3},
      {F::kShared, 64, 128, 32, 32, 32, 1, 0, false, 1},
      {F::kShared, 64, 128, 16, 32, 64, 1, 0, false, 1},
      {F::kShared, 64, 64, 32, 32, 32, 1, 0, false, 2},
      {F::kShared, 64, 64, 16, 32, 32, 1, 0, false, 2},
      {F::kRows, 64, 64, 0, 32, 32, 2, 0, false, 2},
      {F::kRows, 64, 32, 0, 32, 32, 2, 0, false, 2},
      {F::kRows, 32, 32, 0, 32, 32, 4, 0, false, 2},
      {F::kRows, 16, 32, 0, 16, 32, 8, 0, false, 2},
      {F::kRows, 16, 16, 0, 16, 16, 8, 0, false, 2},
      {F::kPacked, 128, 64, 0, 32, 64, 1, 0, false, 1},
      {F::kPacked, 32, 32, 0, 32, 32, 4, 0, false, 2},
  };
  return tiles;
}

/// fp32 sums that are shorter gain nothing from the units' rate and would be rounded coarsely.
constexpr int64_t kShortestSplit = 64;

std::optional<Pieces> pieces_of(const NodeContext& c) {
  switch (c.dtype("a")) {
    case DType::kF16:
      return Pieces{DType::kF16, 1, 0};
    case DType::kBF16:
      return Pieces{DType::kBF16, 1, 0};
    case DType::kF32:
      return c.settings.disable_tf32 ? Pieces{DType::kBF16, 3, 2} : Pieces{DType::kBF16, 2, 0};
    default:
      return std::nullopt;
  }
}

}  // namespace

std::vector<Tactic> matrix_tactics(const NodeContext& c, Builder& b, const Product& p) {
  const std::optional<Pieces> pieces = pieces_of(c);
  if (!pieces || c.device.is_cpu() || c.device.coop_matrices.empty()) return {};
  const Problem q = problem_of(c, b, p, *pieces);
  if (pieces->count > 1 && q.k < kShortestSplit) return {};
  std::vector<MatrixTile> tiles = pieces->count > 1 ? tiles_32() : tiles_16();
  std::stable_sort(tiles.begin(), tiles.end(), [&](const MatrixTile& s, const MatrixTile& t) {
    return expected(q, s) < expected(q, t);
  });
  std::vector<Tactic> tactics;
  size_t kept = 0;
  for (const MatrixTile& t : tiles) {
    Tactic tactic{.name = tactic_name(q, t), .refusal = refusal(q, t)};
    if (tactic.refusal.empty() && kept == kMostTactics) tactic.refusal = "expected to be slower";
    if (tactic.refusal.empty()) {
      ++kept;
      (t.family == MatrixTile::kShared ? emit_shared : emit_fragments)(q, t, tactic);
    }
    tactics.push_back(std::move(tactic));
  }
  return tactics;
}

}  // namespace tv
