// fp32 products without matrix units, operands in fours (matmul_simt.comp).

#include <algorithm>

#include "converters/matmul/matrix_units/matmul_coopmat.h"
#include "csrc/graph/strided.h"

namespace tv {
namespace {

struct SimtTile {
  int64_t bm, bn, bk, rm, rn;
  int64_t block;  ///< pairs of tiles of k summed before rounding into the second set; 0: none
  double cost;    ///< of one output's products, measured against the best tile
  int64_t threads() const { return bm / rm * (bn / rn); }
};

// 8x16 outputs an invocation leave no registers for a second set of sums.
constexpr SimtTile kTiles[] = {
    {64, 256, 8, 8, 16, 0, 1.0}, {128, 128, 8, 8, 8, 4, 1.2}, {64, 64, 16, 4, 8, 2, 1.6},
    {32, 64, 16, 4, 4, 2, 2.2},  {32, 32, 16, 4, 4, 2, 2.6},
};

/// Neighbours in memory of each operand.
struct Sides {
  bool a_rows, a_cols, b_rows, b_cols;
};

Sides sides_of(const NodeContext& c, const Product& p) {
  const bool a = is_aligned(c, c.node.input("a")), b = is_aligned(c, c.node.input("b"));
  return {a && loads_runs(4, p.k, p.a_k, p.a_m, p.batch.a),
          a && loads_runs(4, p.m, p.a_m, p.a_k, p.batch.a),
          b && loads_runs(4, p.n, p.b_n, p.b_k, p.batch.b),
          b && loads_runs(4, p.k, p.b_k, p.b_n, p.batch.b)};
}

std::string refusal(const NodeContext& c, const Product& p, const SimtTile& t, const Sides& s) {
  if (c.device.is_cpu()) return "workgroups that share memory are slow on a CPU";
  if (t.threads() > c.device.max_workgroup_invocations) {
    return "workgroups of " + text(t.threads()) + " invocations are not possible";
  }
  if (p.batch.sizes.size() > kMaxBatchDims) return "more than 3 batch dimensions";
  if (std::string reason = batch_refusal(c, p.batch.count()); !reason.empty()) return reason;
  if (p.k.bounds(c.graph.symbols).first < 1) return "k may be 0";
  if ((!s.a_rows && !s.a_cols) || (!s.b_rows && !s.b_cols)) {
    return "operands are read in fours; strides or sizes are no multiples of that";
  }
  return "";
}

Step step_of(const NodeContext& c, const Product& p, const SimtTile& t, const Sides& s) {
  const ValueId y = c.node.outputs[0];
  const bool by_fours = divides(4, p.n);
  Operand result = dst("y", y);
  result.vec4 = by_fours && is_aligned(c, y) &&
                is_dense(c.graph.value(y).shape, layout_of(c.graph, y).strides);
  const bool a_cols = !s.a_rows, b_cols = !s.b_rows;
  Step step{
      .kernel = "matmul_simt",
      .defines = {{"BM", text(t.bm)},
                  {"BN", text(t.bn)},
                  {"BK", text(t.bk)},
                  {"RM", text(t.rm)},
                  {"RN", text(t.rn)},
                  {"BLOCK", text(t.block)},
                  {"FALLBACK", "0"},
                  {"GROUP", "8u"},
                  {"A_COLS", flag(a_cols)},
                  {"B_COLS", flag(b_cols)},
                  {"N4", flag(by_fours)},
                  {"WHOLE_M", flag(divides(t.bm, p.m))},
                  {"WHOLE_K", flag(divides(2 * t.bk, p.k))}},
      .operands = {src("a", c.node.input("a")), src("b", c.node.input("b")), result},
      .params = {fixed("m_count", p.m), fixed("n_count", p.n), fixed("k_count", p.k),
                 fixed("a_ld", a_cols ? p.a_k : p.a_m), fixed("b_ld", b_cols ? p.b_n : p.b_k)},
      .grid = {{ceil_div(p.m, t.bm) * ceil_div(p.n, t.bn), 1, p.batch.count()}},
      .local_size = {static_cast<uint32_t>(t.threads()), 1, 1}};
  add_batch(step, p.batch, p.batch.a, "az");
  add_batch(step, p.batch, p.batch.b, "bz");
  return step;
}

/// The tile of fallback_step: the most accurate, and as it rarely runs, not the fastest.
constexpr const SimtTile& kLeftOverTile = kTiles[1];

}  // namespace

std::string fallback_refusal(const NodeContext& c, const Product& p) {
  return refusal(c, p, kLeftOverTile, sides_of(c, p));
}

Step fallback_step(const NodeContext& c, const Product& p, const MadeSide& scales_a,
                   const MadeSide& scales_b) {
  Step step = step_of(c, p, kLeftOverTile, sides_of(c, p));
  for (auto& [key, value] : step.defines) {
    if (key == "FALLBACK") value = "1";
  }
  for (const auto& [name, side] : {std::pair("scale_a", &scales_a), {"scale_b", &scales_b}}) {
    step.operands.push_back(src(name, side->value));
    step.params.push_back(fixed(std::string(name) + "_z", side->z_step));
  }
  return step;
}

std::vector<Tactic> simt_tactics(const NodeContext& c, const Product& p) {
  if (c.dtype("a") != DType::kF32) return {};
  const int64_t m = typical(c.graph, p.m), n = typical(c.graph, p.n);
  const int64_t z = typical(c.graph, p.batch.count());
  const int64_t units = compute_units(c.device);
  const auto expected = [&](const SimtTile& t) {
    const int64_t groups = div_up(m, t.bm) * div_up(n, t.bn) * z;
    return static_cast<double>(div_up(groups, units) * t.bm * t.bn) * t.cost;
  };
  std::vector<SimtTile> tiles(std::begin(kTiles), std::end(kTiles));
  std::stable_sort(tiles.begin(), tiles.end(),
                   [&](const SimtTile& s, const SimtTile& t) { return expected(s) < expected(t); });
  const Sides sides = sides_of(c, p);
  std::vector<Tactic> tactics;
  for (const SimtTile& t : tiles) {
    Tactic tactic{.name = "matmul_simt_" + text(t.bm) + "x" + text(t.bn) + "_" + text(t.rm) + "x" +
                          text(t.rn),
                  .refusal = refusal(c, p, t, sides)};
    if (tactic.refusal.empty()) tactic.steps.push_back(step_of(c, p, t, sides));
    tactics.push_back(std::move(tactic));
  }
  return tactics;
}

}  // namespace tv
