#include "converters/matmul/matmul_quantised_direct.h"

#include <algorithm>

#include "converters/matmul/matrix_units.h"

namespace tv {
namespace {

constexpr int64_t kStep = 64;       // of k, for which an invocation loads 16 bytes
constexpr int64_t kMostRows = 2;    // of a: each reads the matrix again
constexpr int64_t kSubgroups = 24;  // that a compute unit is to be given
constexpr int64_t kRingOfOne = 4;   // steps on their way, of one block of 16 rows
constexpr size_t kMostTactics = 3;
constexpr int64_t kFewestUnits = 96;  // of shared memory, in which the kernel looks at fragments

/// `blocks` of 16 rows of the matrix a subgroup, `sharers` subgroups a workgroup, which share the
/// steps of k; on_unit: workgroups that a compute unit is given, for tile after tile, 0: one a
/// tile.
struct DirectTile {
  int64_t blocks, sharers, on_unit;
};

SplitPrecision precision_of(const DirectProduct& d) { return {.input = d.c.dtype("a")}; }

int64_t rows_of(const DirectProduct& d) { return d.gated ? 2 * d.p.n : d.p.n; }

int64_t steps_of(const DirectProduct& d) { return d.p.k / kStep; }

int64_t outputs_of(const DirectProduct& d, const DirectTile& t) {
  return kFragment * (d.gated ? 1 : t.blocks);
}

/// Steps on their way: a divisor of a subgroup's.
int64_t ring_of(const DirectProduct& d, const DirectTile& t) {
  const int64_t steps = steps_of(d) / t.sharers;
  int64_t ring = kRingOfOne / t.blocks;
  while (steps % ring != 0) ring /= 2;
  return ring;
}

std::string name_of(const DirectProduct& d, const DirectTile& t, const std::string& name) {
  const std::string width = "1x" + text(kFragment * t.blocks);
  return name + "_direct_" + precision_of(d).name() + "_" + width + "_w" + width + "x" +
         text(t.sharers) + (t.on_unit > 0 ? "_unit" + text(t.on_unit) : "");
}

int64_t shared_bytes(const DirectProduct& d, const DirectTile& t) {
  const int64_t row = std::max(kFewestUnits, d.p.k / kChunk + 2 * kFragment) * kUnitBytes;
  return row + 4 * (d.p.k / 32 + 2 * t.sharers * kFragment * t.blocks + t.sharers);
}

std::string refusal(const DirectProduct& d, const DirectTile& t) {
  const NodeContext& c = d.c;
  const QuantisedProduct& p = d.p;
  if (p.q.bits != 4 || !p.q.has_integers()) return "elements are no integers of 4 bits";
  if (!loads_rows_directly(c.device)) {
    return "no 16x8x16 matrices are multiplied, in whose fragments elements lie as they are dealt";
  }
  if (p.k % kStep != 0 || p.group % (kStep / 2) != 0) {
    return "rows or groups are no multiple of 64 and 32 steps of k";
  }
  if (d.gated && p.n % kFragment != 0) return "halves are no multiple of 16 rows";
  if (!(p.a_k == Expr(1)) || !(mod(p.a_m, 4) == Expr(0)) || c.graph.value(c.node.input("a")).view) {
    return "rows of a are not dense";
  }
  if (typical(c.graph, d.m) > kMostRows) return "many rows";
  if (steps_of(d) % t.sharers != 0) return "subgroups cannot share the steps of k evenly";
  if (t.on_unit > 0 && div_up(p.n, outputs_of(d, t)) <= t.on_unit * compute_units(c.device)) {
    return "there are few tiles";
  }
  return workgroup_refusal(c.device, kInvocations * t.sharers, shared_bytes(d, t));
}

/// Appends the launch that deals the words out.
ValueId add_dealt(const DirectProduct& d, std::vector<Step>& steps) {
  const int64_t count = div_up(rows_of(d), kFragment) * steps_of(d) * kInvocations;
  const DType dtype = d.c.graph.value(d.p.q.input).dtype;
  const ValueId dealt = d.b.scratch("dealt", dtype, {Expr(count * kUnitBytes)});
  Operand to = dst("y", dealt);
  to.vec4 = true;
  steps.push_back({.kernel = "matmul_quantised_deal",
                   .operands = {src("q", d.p.q.input), to},
                   .params = {param("dealt", Expr(count)), param("steps", Expr(steps_of(d))),
                              param("n_count", Expr(rows_of(d)))},
                   .grid = one_each(Expr(count), 64)});
  return dealt;
}

void emit(const DirectProduct& d, const DirectTile& t, Tactic& tactic) {
  QuantisedProduct dealt = d.p;
  dealt.runs = add_dealt(d, tactic.steps);
  const bool half = d.c.dtype("a") == DType::kF16;
  Step step = matrix_step("matmul_quantised_direct", precision_of(d), kInvocations * t.sharers);
  d.add_problem(dealt, step);
  for (Operand& operand : step.operands) {
    operand.vec4 |= operand.name == "a" || operand.name == "q";
  }
  const int64_t tiles = div_up(d.p.n, outputs_of(d, t));
  const int64_t most = t.on_unit > 0 ? t.on_unit * compute_units(d.c.device) : tiles;
  const int64_t groups = std::min(tiles, most), ring = ring_of(d, t);
  step.grid = {{Expr(groups), d.m, 1}};
  step.params.push_back(fixed("tiles", tiles));
  step.params.push_back(fixed("tiles_apart", groups));
  step.defines.insert(step.defines.end(), {{"K_COUNT", text(d.p.k) + "u"},
                                           {"BLOCKS", text(t.blocks)},
                                           {"WK", text(t.sharers)},
                                           {"RING", text(ring)},
                                           {"HALF", flag(half)},
                                           {"TO_16X4", half ? "tv_to_f16x4" : "tv_to_bf16x4"}});
  step.iterations = Expr(div_up(tiles, groups) * (steps_of(d) / t.sharers / ring + 4) +
                         d.p.k / (4 * kInvocations * t.sharers) + 8);
  tactic.steps.push_back(std::move(step));
}

}  // namespace

std::vector<Tactic> quantised_direct_tactics(const DirectProduct& d, const std::string& name) {
  const DType dtype = d.c.dtype("a");
  if (d.c.device.is_cpu() || d.c.device.coop_matrices.empty()) return {};
  if (dtype != DType::kF16 && dtype != DType::kBF16) return {};
  const int64_t least = d.gated ? 2 : 1;
  std::vector<DirectTile> tiles;
  for (const int64_t blocks : {int64_t{2}, int64_t{1}}) {
    if (blocks < least) continue;
    for (const int64_t sharers : {8, 4}) {
      for (const int64_t on_unit : {kSubgroups / sharers, int64_t{0}}) {
        tiles.push_back({blocks, sharers, on_unit});
      }
    }
  }
  // What gives compute units enough subgroups comes first, of it what has the longest loops.
  const int64_t wanted = compute_units(d.c.device) * kSubgroups;
  std::ranges::stable_sort(tiles, {}, [&](const DirectTile& t) {
    const int64_t subgroups = div_up(d.p.n, outputs_of(d, t)) * t.sharers;
    return 2 * subgroups >= wanted ? 0 : wanted / subgroups;
  });
  std::vector<Tactic> tactics;
  size_t offered = 0;
  for (const DirectTile& tile : tiles) {
    Tactic tactic{.name = name_of(d, tile, name), .refusal = refusal(d, tile)};
    if (tactic.refusal.empty() && ++offered > kMostTactics)
      tactic.refusal = "expected to be slower";
    if (tactic.refusal.empty()) emit(d, tile, tactic);
    tactics.push_back(std::move(tactic));
  }
  return tactics;
}

}  // namespace tv
