// Products on matrix units: 16-bit floats as they are, fp32 in pieces (matrix.glsl).
//
// Four families. "shared": a, and b where it is not packed, pass through shared memory. "direct": b
// in fragment order, rows of a into registers as they lie, on NVIDIA's units. "rows": the same through a
// patch of each subgroup's own, on any: both for few rows. "packed": both in fragment order, whatever
// their strides. A constant b is packed once per set of weights.

#include <algorithm>
#include <map>

#include "converters/matmul/matmul_coopmat.h"
#include "csrc/graph/strided.h"

namespace tv {
namespace {

constexpr uint32_t kNvidia = 0x10de;  // PCI's number of the vendor
constexpr size_t kMostTactics = 12;
constexpr size_t kMostOfTwoWays = 7;  // where operands become matrices in two ways, of each

/// What every product kernel gets.
Step product_step(const MatrixProblem& q, const MatrixTile& t) {
  const Product& p = q.p;
  const Expr tiles = ceil_div(p.m, t.bm) * ceil_div(p.n, t.bn);
  const bool by_fours = divides(4, p.n), split = t.split > 1;
  Operand result = dst("y", split ? split_k_sums(q.b, p, t.split) : q.y);
  result.vec4 = by_fours && (split || (is_dense(q.c.graph.value(q.y).shape,
                                                layout_of(q.c.graph, q.y).strides) &&
                                       is_aligned(q.c, q.y)));
  Step step{.defines = {{"BM", text(t.bm)},
                        {"BN", text(t.bn)},
                        {"WM", text(t.wm)},
                        {"WN", text(t.wn)},
                        {"WK", text(t.wk)},
                        {"GROUP", text(t.group) + "u"},
                        {"PIECES", text(q.pieces.count)},
                        {"SCALED", flag(q.pieces.scaled)},
                        {"SPLIT", text(t.split)},
                        {"STRIP", text(strip_of(t, q.c.device.max_shared_bytes))},
                        {"N4", flag(by_fours)},
                        {"WHOLE_M", flag(divides(t.bm, p.m))},
                        {"WHOLE_N", flag(divides(t.bn, p.n))}},
            .operands = {result},
            .params = {fixed("m_count", p.m), fixed("n_count", p.n), fixed("k_count", p.k)},
            .grid = {{tiles, 1, p.batch.count() * t.split}},
            .local_size = {static_cast<uint32_t>(t.threads()), 1, 1},
            .subgroup_size = 32,
            .matrix = CooperativeMatrix{.input = q.pieces.input, .denormals = q.pieces.scaled}};
  if (split) step.params.push_back(fixed("matrices", p.batch.count()));
  return step;
}

/// a and b with the strides that what is not finite is computed again from, or that rows are read
/// with.
void add_sources(const MatrixProblem& q, bool reads_a, bool reads_b, Step& step) {
  const Product& p = q.p;
  const bool again = q.pieces.count > 1 && !q.pieces.scaled;
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

void add_made(const MadeSide& side, const std::string& name, Step& step) {
  step.operands.push_back(src(name, side.value));
  step.params.push_back(fixed(name + "_z", side.z_step));
}

int64_t stages(const MatrixProblem& q, const MatrixTile& t) {
  return q.pieces.count > 1 ? t.stages : 2;
}

void emit_shared(const MatrixProblem& q, const MatrixTile& t, Tactic& tactic) {
  const Product& p = q.p;
  const Expr k_steps = floordiv(round_up(p.k, 2 * t.bk), kFragment);
  const bool a_cols = !q.a_rows, b_cols = !q.b_rows;
  MadeSide packed, scale_a, scale_b;
  if (q.pieces.scaled) {
    scale_a = add_scales(q, true, tactic.steps);
    scale_b = add_scales(q, false, tactic.steps);
  }
  if (t.ring > 0) {
    packed = add_packing(q, false,
                         {k_steps, t.bn, t.ring * t.wk, q.pieces.scaled ? &scale_b : nullptr},
                         tactic.steps);
  }
  Step step = product_step(q, t);
  step.kernel = "matmul_matrix";
  const std::pair<std::string, std::string> more[] = {
      {"PROMOTE", text(std::min(q.pieces.promote, t.bk / kFragment / t.wk))},
      {"BK", text(t.bk)},           {"AHEAD", flag(t.ahead)},
      {"STAGES", text(stages(q, t))},
      {"PACKED", text(t.ring)},     {"A_COLS", flag(a_cols)},
      {"B_COLS", flag(b_cols)},     {"WHOLE_K", flag(divides(2 * t.bk, p.k))}};
  step.defines.insert(step.defines.end(), std::begin(more), std::end(more));
  add_sources(q, true, t.ring == 0, step);
  step.params.push_back(fixed("a_ld", a_cols ? p.a_k : p.a_m));
  if (t.ring > 0) {
    add_made(packed, "packed", step);
    step.params.push_back(fixed("k_steps", k_steps));
  } else {
    step.params.push_back(fixed("b_ld", b_cols ? p.b_n : p.b_k));
  }
  if (q.pieces.scaled) {
    add_made(scale_a, "scale_a", step);
    add_made(scale_b, "scale_b", step);
  }
  tactic.steps.push_back(std::move(step));
  if (q.pieces.scaled) tactic.steps.push_back(fallback_step(q.c, p, scale_a, scale_b));
}

/// Steps of k that the subgroups of a fragments kernel take, and how many at once.
struct Share {
  Expr each, k_steps;
  int64_t unroll = 1, ring = 1;
};

/// Units of the patches that rows of a pass through.
int64_t row_patches(const MatrixProblem& q, const MatrixTile& t, int64_t unroll) {
  return q.pieces.count * t.wm * (unroll * 2 + 1) * t.warps();
}

/// Of steps that an invocation reads in pairs: as many at once as leave the fewest to pad, all of them
/// where they are few.
Share paired_share(const MatrixProblem& q, const MatrixTile& t) {
  constexpr int64_t kMost = 16, kMostOfPieces = 4;
  const Expr each = ceil_div(ceil_div(q.p.k, kFragment), t.wk * t.split);
  Share s{.unroll = 4};
  if (const auto count = each.constant()) {
    const auto padded = [&](int64_t unroll) { return (*count + unroll - 1) / unroll * unroll; };
    s.unroll = t.unroll > 0 ? t.unroll : q.pieces.count > 1 ? kMostOfPieces : kMost;
    for (int64_t unroll = s.unroll; unroll >= 2; unroll -= 2) {
      if (padded(unroll) < padded(s.unroll)) s.unroll = unroll;
    }
  }
  s.ring = s.unroll % 4 == 0 && t.wm * t.wn < 2048 && q.pieces.count == 1 ? 4 : 2;
  s.each = round_up(each, s.unroll);
  s.k_steps = s.each * (t.wk * t.split);
  return s;
}

Share share_of(const MatrixProblem& q, const MatrixTile& t) {
  if (t.family == MatrixTile::kDirect) return paired_share(q, t);
  const Expr each = ceil_div(ceil_div(q.p.k, kFragment), t.wk * t.split);
  const bool few = t.wm * t.wn >= 2048 || q.pieces.count > 1 ||
                   (t.family == MatrixTile::kRows && t.wm > 32);
  const int64_t most = few ? 2 : 4;
  Share s{.unroll = most};
  if (const auto count = each.constant()) {
    // Without a remainder where a few steps more or less do it.
    for (const int64_t unroll : {most, few ? most : most + 2, most - 1, most + 1}) {
      if (*count % unroll == 0 && (t.family != MatrixTile::kRows || unroll <= most ||
                                   row_patches(q, t, unroll) * 16 <= q.c.device.max_shared_bytes)) {
        s.unroll = unroll;
        break;
      }
    }
    s.unroll = std::min(s.unroll, std::max<int64_t>(1, *count));
  }
  s.ring = s.unroll > 4 && s.unroll % 2 == 0 ? s.unroll / 2 : s.unroll;
  const bool wide = t.wm * t.wn >= 2048 && !(t.family == MatrixTile::kRows && t.wn < 64);
  if (wide || q.pieces.count > 1) s.ring = s.unroll % 2 == 0 ? s.unroll / 2 : 1;
  s.each = round_up(each, s.unroll);
  s.k_steps = s.each * (t.wk * t.split);
  return s;
}

void emit_fragments(const MatrixProblem& q, const MatrixTile& t, Tactic& tactic) {
  const bool pack_a = t.family == MatrixTile::kPacked, direct = t.family == MatrixTile::kDirect;
  const Share s = share_of(q, t);
  const MadeSide b =
      add_packing(q, false, {s.k_steps, t.bn, s.ring, nullptr, direct}, tactic.steps);
  MadeSide a;
  if (pack_a) a = add_packing(q, true, {s.k_steps, t.bm, s.ring}, tactic.steps);
  Step step = product_step(q, t);
  step.kernel = "matmul_fragments";
  const std::pair<std::string, std::string> more[] = {
      {"A_PACKED", flag(pack_a)},
      {"DIRECT", flag(direct)},
      {"TO_16", q.pieces.input == DType::kF16 ? "tv_to_f16" : "tv_to_bf16"},
      {"PROMOTE", flag(q.pieces.promote > 0)},
      {"UNROLL", text(s.unroll)},
      {"RING", text(s.ring)},
      {"WHOLE_K", flag(divides(kFragment * s.unroll * t.wk * t.split, q.p.k))}};
  step.defines.insert(step.defines.end(), std::begin(more), std::end(more));
  add_sources(q, !pack_a, false, step);
  if (!pack_a) step.params.push_back(fixed("a_ld", q.p.a_m));
  add_made(b, "packed", step);
  if (pack_a) add_made(a, "packed_a", step);
  step.params.push_back(fixed("k_steps", s.k_steps));
  step.params.push_back(fixed("share", s.each));
  const ValueId sums = step.operands.front().value;
  tactic.steps.push_back(std::move(step));
  if (t.split > 1) tactic.steps.push_back(split_k_step(q.c, q.p, sums, t.split));
}

/// Bytes of shared memory, as the kernels declare it.
int64_t shared_bytes(const MatrixProblem& q, const MatrixTile& t) {
  const int64_t pieces = q.pieces.count;
  const int64_t strip = strip_of(t, q.c.device.max_shared_bytes) * kFragment;
  int64_t units = t.wk > 1 ? t.wk * (t.bm / t.wm) * strip * (t.bn / 4 + 1)
                           : t.bm / t.wm * (t.bn / t.wn) * 16 * (t.wn / 4 + 1);
  if (t.family == MatrixTile::kShared) {
    const auto tile = [](int64_t rows, int64_t cols) { return rows * (cols / kChunk + 1); };
    int64_t stage = q.a_rows ? tile(t.bm, t.bk) : tile(t.bk, t.bm);
    if (t.ring == 0) stage += q.b_rows ? tile(t.bk, t.bn) : tile(t.bn, t.bk);
    units = std::max(units, stages(q, t) * pieces * stage);
  } else if (t.family == MatrixTile::kRows) {
    units = std::max(units, row_patches(q, t, share_of(q, t).unroll));
  }
  return units * 16;
}

std::string refusal(const MatrixProblem& q, const MatrixTile& t) {
  const DeviceProfile& device = q.c.device;
  const Product& p = q.p;
  if (p.batch.sizes.size() > kMaxBatchDims) return "more than 3 batch dimensions";
  if (p.batch.count().bounds(q.c.graph.symbols).second > device.max_grid[2]) {
    return "more than " + text(device.max_grid[2]) + " matrices";
  }
  if (p.k.bounds(q.c.graph.symbols).first < 1) return "k may be 0";
  if (t.split > 1) {
    if (std::string reason = split_k_refusal(q.c, p, t.split); !reason.empty()) return reason;
  }
  if (t.family == MatrixTile::kShared && !q.a_rows && !q.a_cols) {
    return "a is read in chunks of 8; its strides or sizes are no multiples of that";
  }
  if (t.family == MatrixTile::kDirect && device.vendor_id != kNvidia) {
    return "fragments lie as rows are read on NVIDIA's units alone";
  }
  if (t.unroll > 0) {
    MatrixTile unlimited = t;
    unlimited.unroll = 0;
    if (share_of(q, t).unroll == share_of(q, unlimited).unroll) return "as without its limit";
  }
  if ((t.family == MatrixTile::kRows || t.family == MatrixTile::kDirect) && !q.a_rows) {
    return "rows of a are read in chunks of 8; its strides or k are no multiples of that";
  }
  if (q.pieces.scaled) {
    if (std::string reason = fallback_refusal(q.c, p); !reason.empty()) return reason;
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

std::string tactic_name(const MatrixProblem& q, const MatrixTile& t) {
  static const char* kFamilies[] = {"shared", "rows", "packed", "direct"};
  std::string text_ = "matmul_" + std::string(kFamilies[t.family]) + "_" + q.pieces.name() + "_" +
                      text(t.bm) + "x" + text(t.bn);
  if (t.family == MatrixTile::kShared) text_ += "x" + text(t.bk);
  text_ += "_w" + text(t.wm) + "x" + text(t.wn);
  if (t.wk > 1) text_ += "x" + text(t.wk);
  if (t.family == MatrixTile::kShared && t.ring > 0) text_ += "_ring" + text(t.ring);
  if (t.ahead) text_ += "_ahead";
  if (t.stages == 1) text_ += "_stage1";
  if (t.group != 8) text_ += "_g" + text(t.group);
  if (t.unroll > 0) text_ += "_u" + text(t.unroll);
  if (t.split > 1) text_ += "_k" + text(t.split);
  return text_;
}

/// fp32 sums that are shorter gain nothing from the units' rate and would be rounded coarsely.
constexpr int64_t kShortestSplit = 64;

/// Ways to make matrices of the operands' dtype; none where the units have no such product.
std::vector<SplitPrecision> ways(const NodeContext& c) {
  switch (c.dtype("a")) {
    case DType::kF16:
      return {{.input = DType::kF16}};
    case DType::kBF16:
      return {{.input = DType::kBF16}};
    case DType::kF32:
      if (!c.settings.disable_tf32) {
        return {{.input = DType::kBF16, .count = 2}, {.input = DType::kF16, .scaled = true}};
      }
      return {{.input = DType::kBF16, .count = 3, .promote = 1},
              {.input = DType::kF16, .count = 2, .promote = 2, .scaled = true}};
    default:
      return {};
  }
}

struct Candidate {
  const MatrixProblem* problem;
  MatrixTile tile;
  double time;
};

}  // namespace

std::vector<Tactic> matrix_tactics(const NodeContext& c, Builder& b, const Product& p) {
  if (c.device.is_cpu() || c.device.coop_matrices.empty()) return {};
  std::vector<MatrixProblem> problems;
  for (const SplitPrecision& pieces : ways(c)) {
    MatrixProblem q = matrix_problem(c, b, p, pieces);
    if (c.dtype("a") != DType::kF32 || q.k >= kShortestSplit) problems.push_back(std::move(q));
  }
  std::vector<Candidate> candidates;
  for (const MatrixProblem& q : problems) {
    for (const MatrixTile& t : matrix_tiles(q.pieces)) {
      candidates.push_back({&q, t, expected_time(q, t)});
      const MatrixTile split = with_split_k(q, t);
      if (split.split > 1) candidates.push_back({&q, split, expected_time(q, split)});
    }
  }
  std::stable_sort(candidates.begin(), candidates.end(),
                   [](const Candidate& s, const Candidate& t) { return s.time < t.time; });
  std::vector<Tactic> tactics;
  const size_t most = problems.size() > 1 ? kMostOfTwoWays : kMostTactics;
  std::map<const MatrixProblem*, size_t> kept;
  for (const Candidate& candidate : candidates) {
    const MatrixProblem& q = *candidate.problem;
    const MatrixTile& t = candidate.tile;
    Tactic tactic{
        .name = tactic_name(q, t), .refusal = refusal(q, t), .error = q.pieces.error()};
    if (tactic.refusal.empty() && kept[&q] == most) tactic.refusal = "expected to be slower";
    if (tactic.refusal.empty()) {
      ++kept[&q];
      (t.family == MatrixTile::kShared ? emit_shared : emit_fragments)(q, t, tactic);
    }
    tactics.push_back(std::move(tactic));
  }
  return tactics;
}

}  // namespace tv
