#include "converters/indexing/select_rows.h"

#include <algorithm>

#include "converters/kit/simd.h"
#include "csrc/graph/strided.h"

namespace tv {

Tactic choose_rows(const NodeContext& c, const Builder& b, const RowChoice& r,
                   const std::string& family) {
  constexpr int64_t kPairs = 16;  // pairs of vectors that a workgroup moves at most
  Tactic tactic{.name = family + "_simd", .refusal = simd_refusal(c.device)};
  if (!tactic.refusal.empty()) return tactic;
  const auto lanes = static_cast<int64_t>(c.device.subgroup_size);
  const Value& x = c.graph.value(r.x);
  const Expr& inner = r.split.inner;
  if (inner.bounds(c.graph.symbols).first < 2 * lanes) tactic.refusal = "rows are too short";
  if (!is_dense(x.shape, b.strides_of(r.x))) tactic.refusal = "rows are not of neighbours";
  if (!tactic.refusal.empty()) return tactic;

  // Blocks of a known length share it evenly; rows of one block share a workgroup.
  const int64_t all = inner.constant() ? div_up(*inner.constant(), 2 * lanes) : kPairs;
  const int64_t pairs = div_up(all, div_up(all, kPairs));
  const int64_t rows = inner.constant() ? kPairs / pairs : 1;
  const Expr blocks = ceil_div(inner, pairs * 2 * lanes), groups = ceil_div(r.entries, rows);
  const Expr workgroups = blocks * groups * r.split.outer;
  Step step{
      .kernel = "select_rows",
      .defines = {{"PAIRS", text(pairs) + "u"},
                  {"ROWS", text(rows) + "u"},
                  {"ONE_BLOCK", flag(blocks == Expr(1))},
                  {"OUTER", flag(r.split.outer != Expr(1))},
                  {"WRAPS", flag(r.wraps)},
                  {"PLACE", r.place},
                  {"UNIFORM_PLACE", simd_uniform(c.graph, r.split.size)},
                  {"UNIFORM_GROUP", simd_uniform(c.graph, 2 * workgroups)},
                  {"X_AT(i)", x.dtype == DType::kF32 ? "simd_load(simd_at(x_ptr, i))"
                                                     : "x_load((i) + gl_SubgroupInvocationID)"}},
      .operands = {src("x", r.x), src("index", r.index), dst("y", r.y)},
      .params = {param("count", inner), param("size", r.split.size), param("entries", r.entries),
                 param("outer", r.split.outer), param("blocks", blocks), param("groups", groups),
                 param("index_outer", r.index_outer), param("index_step", r.index_step)},
      .grid = Grid::flat_groups(workgroups),
      .local_size = {c.device.subgroup_size, 1, 1},
      .subgroup_size = c.device.subgroup_size,
      .uniform_table = true,
      .simd_row = inner,
      .looks_up = true};
  tactic.steps.push_back(std::move(step));
  return tactic;
}

}  // namespace tv
