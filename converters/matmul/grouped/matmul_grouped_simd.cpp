// Grouped products by matmul_simd: each tile of rows is of one group, and a launch of its own
// (matmul_grouped_plan) finds out which rows of which group a tile has.

#include <algorithm>

#include "converters/matmul/grouped/matmul_grouped.h"
#include "converters/matmul/simd/matmul_simd.h"

namespace tv {
namespace {

/// Tiles of `height` rows that `rows` rows make at most, those behind all groups being another
/// group: each group may have a tile that is not full.
Expr most_tiles(const GroupedProduct& p, int64_t height) {
  return floordiv(p.rows + min(p.rows, p.groups + 1) * (height - 1), height);
}

/// The function of simd.glsl that takes numbers of rows and groups.
std::string uniform_function(const NodeContext& c, const GroupedProduct& p) {
  const int64_t most =
      std::max(p.rows.bounds(c.graph.symbols).second, p.groups.bounds(c.graph.symbols).second);
  return most < 1 << 9    ? "simd_uniform_small"
         : most < 1 << 18 ? "simd_uniform"
                          : "simd_uniform_large";
}

std::string refusal(const NodeContext& c, const GroupedProduct& p) {
  std::string reason = simd_refusal(c.device);
  if (!reason.empty()) return reason;
  const auto k = p.k.constant(), n = p.n.constant(), groups = p.groups.constant();
  if (!k || !n || !groups) return "the matrices' sizes are symbolic";
  if (*k == 0 || *groups == 0) return "the sums are empty";
  if (p.rows.bounds(c.graph.symbols).first >= int64_t{1} << 27)
    return "there are 2^27 rows or more";
  if (!is_float(c.dtype("a"))) return "the operands are not floats";
  if (typical(c.graph, p.rows * *n * *k) < 32 * 1024) return "the product is small";
  return "";
}

SimdPlan add_plan(const NodeContext& c, Builder& b, const GroupedProduct& p, int64_t height,
                  std::vector<Step>& steps) {
  SimdPlan plan{
      .tiles = most_tiles(p, height), .groups = p.groups, .uniform = uniform_function(c, p)};
  plan.value = b.scratch("plan", DType::kI32, {plan.tiles * 3});
  steps.push_back(
      {.kernel = "matmul_grouped_plan",
       .defines = {{"ROWS", text(height) + "u"}},
       .operands = {src("ends", c.node.input("ends")), dst("plan", plan.value)},
       .params = {param("tiles", plan.tiles), param("rows", p.rows), param("groups", p.groups)},
       .grid = one_each(plan.tiles, 64),
       .local_size = {64, 1, 1},
       .iterations = p.groups + 1});
  return plan;
}

/// Rows of a as matmul_simd reads them: where they lie, or padded.
void place_rows(const NodeContext& c, Builder& b, const GroupedProduct& p, SimdProduct& simd,
                std::vector<Step>& steps) {
  const int64_t k = *p.k.constant();
  simd.a = c.node.input("a");
  simd.a_m = p.k;
  simd.rest = k % kSimdSegment;
  if (c.dtype("a") == DType::kF32) return;
  simd.a_m = round_up(p.k, kSimdSegment);
  simd.a = add_pack(c, b, "rows", {simd.a, p.rows, p.k, p.k, 1}, {}, {},
                    {.width = kSimdSegment, .cols_multiple = kSimdSegment}, steps);
}

/// The matrices as matmul_simd reads them: where they lie, if they are computed, or packed.
/// `ends_in_output`: its last launch writes the output.
void place_matrices(const NodeContext& c, Builder& b, const GroupedProduct& p, bool in_place,
                    bool ends_in_output, SimdProduct& simd, std::vector<Step>& steps) {
  const int64_t cols = simd_tile(c.device).cols();
  simd.b = c.node.input("b");
  simd.b_k = p.n;
  simd.b_z = p.n * p.k;
  simd.b_tile = cols;
  simd.b_last = p.n - cols;
  if (in_place) return;
  const Expr of_k = p.by_columns ? p.n : Expr(1), of_n = p.by_columns ? Expr(1) : p.k;
  const BatchDims groups{.sizes = {p.groups}, .a = {simd.b_z}, .b = {simd.b_z}};
  simd.b = add_pack(c, b, "columns", {simd.b, p.k, p.n, of_k, of_n}, groups, groups.b,
                    {.width = cols, .tiled = true, .moved = ends_in_output}, steps);
  simd.b_k = cols;
  simd.b_tile = p.k * cols;
  simd.b_z = simd.col_tiles * simd.b_tile;
  simd.b_last = (simd.col_tiles - 1) * simd.b_tile;
}

Tactic tactic_of(const NodeContext& c, Builder& b, const GroupedProduct& p, int64_t height) {
  Tactic tactic{.name = "matmul_grouped_simd_" + text(height), .refusal = refusal(c, p)};
  if (!tactic.refusal.empty()) return tactic;
  const int64_t cols = simd_tile(c.device).cols();
  SimdProduct simd{.rows = p.rows, .col_tiles = ceil_div(p.n, cols), .tile_rows = height};
  simd.count = static_cast<size_t>(div_up(*p.k.constant(), kSimdSegment));
  simd.plan = add_plan(c, b, p, height, tactic.steps);
  place_rows(c, b, p, simd, tactic.steps);
  const bool wide = *p.n.constant() >= cols;
  const bool in_place =
      wide && p.by_columns && c.dtype("b") == DType::kF32 && !b.is_constant(c.node.input("b"));
  // Beside the plan: what simd_step gives a launch that ends in the output.
  const bool ends_in_output = wide && simd_epilogue_fits(c, b, 1, in_place ? 7 : 6);
  place_matrices(c, b, p, in_place, ends_in_output, simd, tactic.steps);
  if (ends_in_output) {
    add_simd_product(c, b, simd, SimdEpilogue{p.n}, tactic.steps);
    return tactic;
  }
  const SimdSums sums = add_simd_product(c, b, simd, tactic.steps);
  add_simd_finish(c, sums,
                  {.rows = p.rows,
                   .columns = {.count = p.n, .moved = in_place},
                   .plan = simd.plan,
                   .tile_rows = height},
                  tactic.steps);
  return tactic;
}

}  // namespace

std::vector<Tactic> grouped_simd_tactics(const NodeContext& c, Builder& b,
                                         const GroupedProduct& p) {
  // A step of k loads two vectors of b, whatever the rows that they are multiplied by.
  const auto cost = [&](int64_t height) {
    return typical(c.graph, most_tiles(p, height)) * (2 + height);
  };
  const int64_t most = simd_tile(c.device).rows;
  std::vector<int64_t> heights = {most, most / 2, most / 4, 1};
  heights.erase(std::unique(heights.begin(), heights.end()), heights.end());
  std::stable_sort(heights.begin(), heights.end(),
                   [&](int64_t x, int64_t y) { return cost(x) < cost(y); });
  std::vector<Tactic> tactics;
  for (const int64_t height : heights) tactics.push_back(tactic_of(c, b, p, height));
  return tactics;
}

}  // namespace tv
