// Products on matrix units: 16-bit floats as they are, fp32 in pieces (matrix.glsl).
//
// Four families. "shared": a, and b where it is not packed, pass through shared memory. "direct": b
// in fragment order, rows of a into registers as they lie (direct_load.glsl says on which units).
// "rows": the same through a patch of each subgroup's own, on any: both for few rows. "packed":
// both in fragment order, whatever their strides. A constant b is packed once per set of weights.

#include <algorithm>

#include "converters/matmul/matrix_units/matmul_coopmat.h"
#include "csrc/graph/strided.h"
#include "csrc/settings.h"

namespace tv {
namespace {

using enum ProductTile::Family;

constexpr size_t kMostTactics = 12;
constexpr size_t kMostOfTwoWays = 7;  // where operands become matrices in two ways, of each
/// fp32 sums that are shorter gain nothing from the units' rate and would be rounded coarsely.
constexpr int64_t kShortestSplit = 64;
/// Sums that an invocation keeps from which on few registers are left for operands on their way.
constexpr int64_t kManySums = 64;

/// What every product kernel gets.
Step product_step(const std::string& kernel, const MatrixProblem& q, const ProductTile& t) {
  const Product& p = q.p;
  const bool by_fours = divides(4, p.n), split = t.split > 1;
  Operand result = dst("y", split ? split_k_sums(q.b, p, t.split) : q.y);
  result.vec4 =
      by_fours &&
      (split || (is_dense(q.c.graph.value(q.y).shape, layout_of(q.c.graph, q.y).strides) &&
                 is_aligned(q.c, q.y)));
  Step step = matrix_step(kernel, q.precision, t.tile);
  for (auto& [name, value] : {std::pair<const char*, std::string>{"GROUP", text(t.group) + "u"},
                              {"SCALED", flag(q.is_scaled())},
                              {"SPLIT", text(t.split)},
                              {"STRIP", text(strip_of(t.tile, q.c.device.max_shared_bytes))},
                              {"N4", flag(by_fours)},
                              {"WHOLE_M", flag(divides(t.tile.bm, p.m))},
                              {"WHOLE_N", flag(divides(t.tile.bn, p.n))}}) {
    step.defines.emplace_back(name, value);
  }
  if (q.bytes > 0) {
    step.matrix = CooperativeMatrix{
        .input = DType::kI8, .sum = DType::kI32, .k = static_cast<uint32_t>(q.bytes)};
  }
  step.operands = {result};
  step.params = {fixed("m_count", p.m), fixed("n_count", p.n), fixed("k_count", p.k)};
  step.grid = {{ceil_div(p.m, t.tile.bm) * ceil_div(p.n, t.tile.bn), 1, p.batch.count() * t.split}};
  if (split) step.params.push_back(fixed("matrices", p.batch.count()));
  return step;
}

/// a and b with the strides that what is not finite is computed again from, or that rows are read
/// with.
void add_sources(const MatrixProblem& q, bool reads_a, bool reads_b, Step& step) {
  const Product& p = q.p;
  const bool again = q.precision.pieces > 1 && !q.is_scaled();
  if (reads_a || again) {
    step.operands.push_back(src("a", q.a));
    step.params.push_back(fixed("a_m", p.a_m));
    step.params.push_back(fixed("a_k", p.a_k));
    add_batch(step, p.batch, p.batch.a, "az");
  }
  if (q.quantised != nullptr) {
    if (!reads_b) return;
    add_quantised_weight(q.c, *q.quantised, step);
    for (Operand& operand : step.operands) operand.vec4 |= operand.name == "q";
  } else if (reads_b || again) {
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

int64_t stages(const MatrixProblem& q, const ProductTile& t) {
  return q.precision.pieces > 1 ? t.stages : 2;
}

}  // namespace

Step shared_step(const MatrixProblem& q, const ProductTile& t) {
  Step step = product_step("matmul_matrix", q, t);
  const std::pair<std::string, std::string> more[] = {
      {"PROMOTE", text(std::min(q.precision.promote, t.bk / kFragment / t.tile.wk))},
      {"BK", text(t.bk)},
      {"AHEAD", flag(t.ahead)},
      {"STAGES", text(stages(q, t))},
      {"PACKED", text(t.ring)},
      {"QUANTISED", flag(q.quantised != nullptr && t.ring == 0)},
      {"BYTES", text(q.bytes)},
      {"SLOTS", text(t.slots)},
      {"IN_RUNS", flag(q.in_runs)},
      {"STEP_UVEC4S", text(q.bytes == kFragment ? 1 : 2)},
      {"A_COLS", flag(!q.a_rows)},
      {"B_COLS", flag(!q.b_rows)},
      {"WHOLE_K", flag(divides(2 * t.bk * t.split, q.p.k))}};
  step.defines.insert(step.defines.end(), std::begin(more), std::end(more));
  if (t.split > 1) {
    step.params.push_back(fixed("share", round_up(ceil_div(ceil_div(q.p.k, t.bk), t.split), 2)));
  }
  return step;
}

void emit_shared(const MatrixProblem& q, const ProductTile& t, Tactic& tactic) {
  const Product& p = q.p;
  const Expr k_steps = floordiv(round_up(p.k, 2 * t.bk), kFragment);
  MadeSide packed, scale_a, scale_b;
  if (q.is_scaled()) {
    scale_a = add_scales(q, true, tactic.steps);
    scale_b = add_scales(q, false, tactic.steps);
  }
  if (t.ring > 0) {
    packed = add_packing(q, false,
                         {.k_steps = k_steps,
                          .multiple = t.tile.bn,
                          .slack = t.ring * t.tile.wk,
                          .scales = q.is_scaled() ? &scale_b : nullptr},
                         tactic.steps);
  }
  Step step = shared_step(q, t);
  add_sources(q, true, t.ring == 0, step);
  step.params.push_back(fixed("a_ld", q.a_rows ? p.a_m : p.a_k));
  if (t.ring > 0) {
    add_made(packed, "packed", step);
    step.params.push_back(fixed("k_steps", k_steps));
  } else if (q.quantised == nullptr) {
    step.params.push_back(fixed("b_ld", q.b_rows ? p.b_k : p.b_n));
  }
  if (q.is_scaled()) {
    add_made(scale_a, "scale_a", step);
    add_made(scale_b, "scale_b", step);
  }
  const ValueId sums = step.operands.front().value;
  tactic.steps.push_back(std::move(step));
  if (q.is_scaled()) tactic.steps.push_back(fallback_step(q.c, p, scale_a, scale_b));
  if (t.split > 1) tactic.steps.push_back(split_k_step(q.c, p, sums, t.split));
}

namespace {

/// Steps of k that the subgroups of a fragments kernel take (`each` of k_steps), how many of them
/// are written out and how many are in flight: macros UNROLL and RING.
struct Share {
  Expr each, k_steps;
  int64_t unroll = 1, ring = 1;
};

/// uvec4s of the patches that rows of a pass through.
int64_t row_patches(const MatrixProblem& q, const ProductTile& t, int64_t unroll) {
  return q.precision.pieces * t.tile.wm * (unroll * 2 + 1) * t.tile.subgroups();
}

/// Steps that a subgroup takes, before they are rounded up to whole rounds of `unroll`.
Expr steps_each(const MatrixProblem& q, const ProductTile& t) {
  return ceil_div(ceil_div(q.p.k, kFragment), t.tile.wk * t.split);
}

/// Of steps that an invocation reads in pairs: as many at once as leave the fewest to pad, all of
/// them where they are few.
int64_t paired_unroll(const MatrixProblem& q, const ProductTile& t) {
  constexpr int64_t kUnknown = 4;                   // of a k that is a symbol
  constexpr int64_t kMost = 16, kMostOfPieces = 4;  // whose code and registers grow with the steps
  const auto count = steps_each(q, t).constant();
  if (!count) return kUnknown;
  const auto padded = [&](int64_t unroll) { return div_up(*count, unroll) * unroll; };
  int64_t best = t.unroll > 0 ? t.unroll : q.precision.pieces > 1 ? kMostOfPieces : kMost;
  for (int64_t unroll = best; unroll >= 2; unroll -= 2) {
    if (padded(unroll) < padded(best)) best = unroll;
  }
  return best;
}

/// Of other steps: as many as registers and shared memory leave room for, or one more or less where
/// that leaves no remainder.
int64_t unroll_of(const MatrixProblem& q, const ProductTile& t) {
  const bool rows = t.family == kRows;
  const bool few = t.tile.sums() >= kManySums || q.precision.pieces > 1 || (rows && t.tile.wm > 32);
  const int64_t most = few ? 2 : 4;
  const auto count = steps_each(q, t).constant();
  if (!count) return most;
  int64_t best = most;
  for (const int64_t unroll : {most, few ? most : most + 2, most - 1, most + 1}) {
    const bool fits = !rows || unroll <= most ||
                      row_patches(q, t, unroll) * kUvec4Bytes <= q.c.device.max_shared_bytes;
    if (*count % unroll == 0 && fits) {
      best = unroll;
      break;
    }
  }
  return std::min(best, std::max<int64_t>(1, *count));
}

/// Steps in flight: a divisor of `unroll`, the smaller the more registers they or the sums take.
int64_t ring_of(const MatrixProblem& q, const ProductTile& t, int64_t unroll) {
  const bool even = unroll % 2 == 0, split = q.precision.pieces > 1;
  const bool many_sums = t.tile.sums() >= kManySums;
  if (t.family == kDirect) return unroll % 4 == 0 && !many_sums && !split ? 4 : 2;
  // Rows of a wait in a patch, so that narrow tiles of them have room.
  const bool wide = many_sums && !(t.family == kRows && t.tile.wn < 64);
  if (wide || split) return even ? unroll / 2 : 1;
  return unroll > 4 && even ? unroll / 2 : unroll;
}

Share share_of(const MatrixProblem& q, const ProductTile& t) {
  const int64_t unroll = t.family == kDirect ? paired_unroll(q, t) : unroll_of(q, t);
  const Expr each = round_up(steps_each(q, t), unroll);
  return {each, each * (t.tile.wk * t.split), unroll, ring_of(q, t, unroll)};
}

void emit_fragments(const MatrixProblem& q, const ProductTile& t, Tactic& tactic) {
  const bool pack_a = t.family == kPacked, direct = t.family == kDirect;
  const Share s = share_of(q, t);
  const MadeSide b = add_packing(
      q, false, {.k_steps = s.k_steps, .multiple = t.tile.bn, .slack = s.ring, .paired = direct},
      tactic.steps);
  MadeSide a;
  if (pack_a) {
    a = add_packing(q, true, {.k_steps = s.k_steps, .multiple = t.tile.bm, .slack = s.ring},
                    tactic.steps);
  }
  Step step = product_step("matmul_fragments", q, t);
  const std::pair<std::string, std::string> more[] = {
      {"A_PACKED", flag(pack_a)},
      {"DIRECT", flag(direct)},
      {"TO_16", q.precision.rounding()},
      {"PROMOTE", flag(q.precision.promote > 0)},
      {"UNROLL", text(s.unroll)},
      {"RING", text(s.ring)},
      {"WHOLE_K", flag(divides(kFragment * s.unroll * t.tile.wk * t.split, q.p.k))}};
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
int64_t shared_bytes(const MatrixProblem& q, const ProductTile& t) {
  const MatrixTile& tile = t.tile;
  const int64_t strip = strip_of(tile, q.c.device.max_shared_bytes) * kFragment;
  int64_t uvec4s =
      tile.wk > 1 ? tile.sum_uvec4s(strip) : tile.subgroups() * kFragment * (tile.wn / 4 + 1);
  if (t.family == kShared) {
    const auto size = [](int64_t rows, int64_t cols) { return rows * (cols / kChunk + 1); };
    int64_t stage = q.a_rows ? size(tile.bm, t.bk) : size(t.bk, tile.bm);
    if (t.ring == 0) stage += q.b_rows ? size(t.bk, tile.bn) : size(tile.bn, t.bk);
    uvec4s = std::max(uvec4s, stages(q, t) * q.precision.pieces * stage);
  } else if (t.family == kRows) {
    uvec4s = std::max(uvec4s, row_patches(q, t, share_of(q, t).unroll));
  }
  // Parts of sums of rows (matmul_integer_shift.glsl), at most.
  if (q.bytes > 0) uvec4s += div_up((tile.bm + tile.bn) * (t.bk / kChunk), kUvec4Words);
  return uvec4s * kUvec4Bytes;
}

/// Whether rows should lie in fragments as direct_load.glsl says, which is how 16x8x16 products
/// have them: a device that offers these, by themselves or among flexible sizes, makes its 16x16x16
/// ones of two. The rule goes by that; the kernel looks where its components lie, and gathers rows
/// where this is wrong.
bool loads_rows_directly(const DeviceProfile& device) {
  return device.coop_matrix2 ||
         device.multiplies(kFragment, kFragment / 2, kFragment, "float16", "float32");
}

}  // namespace

std::string tile_refusal(const MatrixProblem& q, const ProductTile& t) {
  const DeviceProfile& device = q.c.device;
  const Product& p = q.p;
  if (p.batch.sizes.size() > kMaxBatchDims) return "more than 3 batch dimensions";
  if (std::string reason = batch_refusal(q.c, p.batch.count()); !reason.empty()) return reason;
  if (p.k.bounds(q.c.graph.symbols).first < 1) return "k may be 0";
  if (t.split > 1) {
    if (std::string reason = split_k_refusal(q.c, p, t.split); !reason.empty()) return reason;
  }
  if (t.family == kShared && !q.a_rows && !q.a_cols) {
    return "a is read in chunks of 8; its strides or sizes are no multiples of that";
  }
  if (t.family == kDirect && !loads_rows_directly(device)) {
    return "no 16x8x16 matrices are multiplied, in whose fragments rows lie as they are read";
  }
  if (t.unroll > 0) {
    ProductTile unlimited = t;
    unlimited.unroll = 0;
    if (share_of(q, t).unroll == share_of(q, unlimited).unroll) return "as without its limit";
  }
  if ((t.family == kRows || t.family == kDirect) && !q.a_rows) {
    return "rows of a are read in chunks of 8; its strides or k are no multiples of that";
  }
  if (q.is_scaled()) {
    if (std::string reason = fallback_refusal(q.c, p); !reason.empty()) return reason;
  }
  if (!t.packs_b() && !q.b_rows && !q.b_cols) {
    return "b is read in chunks of 8; its strides or sizes are no multiples of that";
  }
  return workgroup_refusal(device, t.tile.threads(), shared_bytes(q, t));
}

std::string tactic_name(const MatrixProblem& q, const ProductTile& t) {
  static const char* kFamilies[] = {"shared", "rows", "packed", "direct"};
  const bool shared = t.family == kShared;
  std::string name = "matmul_";
  if (q.quantised != nullptr) name += "quantised_";
  if (q.bytes > 0) name += "integer_";
  name +=
      (q.quantised != nullptr && t.ring > 0 ? std::string("workspace") : kFamilies[t.family]) + "_";
  if (q.bytes == 0) name += q.precision.name() + "_";
  name += name_of(t.tile, !shared ? 0 : q.bytes > 0 ? t.bk * 2 : t.bk);
  if (shared && t.ring > 0) name += "_ring" + text(t.ring);
  if (t.slots > 1) name += "_ring" + text(t.slots);
  if (t.ahead) name += "_ahead";
  if (t.stages == 1) name += "_stage1";
  if (t.group != 8) name += "_g" + text(t.group);
  if (t.unroll > 0) name += "_u" + text(t.unroll);
  if (t.split > 1) name += "_k" + text(t.split);
  return name;
}

/// With TF32 allowed, its 11 bits do: two bfloat16 pieces hold 16,
/// one float16 piece 11. Else three hold all 24, and two float16 pieces 22, with a fallback.
std::vector<SplitPrecision> float_ways(bool tf32) {
  using enum SplitPrecision::Scale;
  if (tf32) {
    return {{.input = DType::kBF16, .pieces = 2},
            {.input = DType::kF16, .scale = kGroups, .error = 0x1p-10}};
  }
  return {{.input = DType::kBF16, .pieces = 3, .promote = 1},
          {.input = DType::kF16, .pieces = 2, .promote = 2, .scale = kGroups}};
}

namespace {

std::vector<MatrixCandidate<MatrixProblem, ProductTile>> candidates_of(
    const std::vector<MatrixProblem>& problems) {
  std::vector<MatrixCandidate<MatrixProblem, ProductTile>> candidates;
  for (const MatrixProblem& q : problems) {
    for (const ProductTile& t : product_tiles(q.precision)) {
      candidates.push_back({&q, t, expected_ns(q, t)});
      const ProductTile split = with_split_k(q, t);
      if (split.split > 1) candidates.push_back({&q, split, expected_ns(q, split)});
    }
  }
  return candidates;
}

}  // namespace

std::vector<Tactic> matrix_tactics(const NodeContext& c, Builder& b, const Product& p) {
  if (c.device.is_cpu() || c.device.coop_matrices.empty()) return {};
  std::vector<MatrixProblem> problems;
  for (const SplitPrecision& way :
       split_precisions(c.dtype("a"), float_ways(!c.settings.disable_tf32))) {
    MatrixProblem q = matrix_problem(c, b, p, way);
    if (!way.is_split() || q.k >= kShortestSplit) problems.push_back(std::move(q));
  }
  const size_t most = problems.size() > 1 ? kMostOfTwoWays : kMostTactics;
  return ranked_tactics(
      candidates_of(problems), [&](const MatrixProblem&) { return most; },
      [](const MatrixProblem& q, const ProductTile& t) {
        return Tactic{
            .name = tactic_name(q, t), .refusal = tile_refusal(q, t), .error = q.precision.error};
      },
      [](const MatrixProblem& q, const ProductTile& t, Tactic& tactic) {
        (t.family == kShared ? emit_shared : emit_fragments)(q, t, tactic);
      });
}

}  // namespace tv
