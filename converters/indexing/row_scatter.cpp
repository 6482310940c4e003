#include "converters/indexing/row_scatter.h"

#include <algorithm>

#include "converters/kit/simd.h"
#include "converters/sorting/sort_simd.h"
#include "csrc/graph/strided.h"

namespace tv {
namespace {

constexpr int64_t kMostPairs = 32;  // pairs of vectors of its values that a workgroup adds ahead
constexpr int64_t kMostAhead = 8;   // entries of a row that straight-line code adds

/// The output as rows of neighbours.
struct Rows {
  std::string refusal = {};
  Expr outer = 1, inner = 1, outer_step = 0;  ///< outer_step: of the values
};

Rows rows_of(const NodeContext& c, const RowScatter& s, const LoopNest& of_y) {
  const Expr none(0), one(1);
  const auto is = [&](size_t from_end, const Expr& row) {
    return of_y.targets[0].second.at(of_y.sizes.size() - from_end) == row;
  };
  const Shape& rest = of_y.targets[1].second;
  const size_t loops = of_y.sizes.size();
  Rows rows{.refusal = simd_refusal(c.device)};
  if (!rows.refusal.empty()) return rows;
  rows.refusal = "rows are not of neighbours";
  if (loops < 2 || loops > 3 || !is(1, none) || rest[loops - 1] != one || !is(2, one)) return rows;
  if (rest[loops - 2] != none || (loops == 3 && !is(3, none))) return rows;
  if (of_y.sizes[loops - 2] != s.rows()) return rows;
  rows.inner = of_y.sizes.back();
  if (loops == 3) {
    rows.outer = of_y.sizes[0];
    rows.outer_step = rest[0];
  }
  const auto lanes = static_cast<int64_t>(c.device.subgroup_size);
  const bool is_short = rows.inner.bounds(c.graph.symbols).first < 2 * lanes;
  rows.refusal = is_short ? "rows are too short" : "";
  return rows;
}

/// The steps that find each row's entries: `start` and, in its order, `at`.
struct Found {
  std::vector<Step> steps = {};
  ValueId start = kNoValue, at = kNoValue;
};

Found find_entries(const NodeContext& c, Builder& b, const RowScatter& s) {
  const ValueId key = b.scratch("row_key", DType::kI32, {s.entries()});
  Found found{.steps = {scatter_keys(s, key)}};
  SortLines lines{.x = {.value = key, .shape = {s.entries()}, .strides = {Expr(1)}},
                  .split = {.outer = 1, .size = s.entries(), .inner = 1},
                  .limit = s.entries(),
                  .dtype = DType::kI32};
  SimdSort sort = sort_by_simd(c, b, lines);
  std::move(sort.steps.begin(), sort.steps.end(), std::back_inserter(found.steps));
  found.at = sort.sorted.at;
  found.start = b.scratch("row_start", DType::kI32, {s.rows() + 1});
  Step starts{.kernel = "scatter_starts",
              .operands = {src("keys", sort.sorted.keys), dst("start", found.start)},
              .params = {param("rows", s.rows()), param("entries", s.entries())},
              .grid = one_each(s.rows() + 1, 64),
              .iterations = 33};
  add_key(starts, DType::kI32, false);
  found.steps.push_back(std::move(starts));
  return found;
}

LoopNest nest_of_y(const RowScatter& s) {
  LoopNest of_y{.sizes = s.out, .targets = {{"row", s.row_of}, {"rest", s.rest}}};
  of_y.collapse();
  return of_y;
}

LoopNest nest_of_values(const RowScatter& s) {
  LoopNest of_value{.sizes = s.index_shape, .targets = {{"v", s.value_strides}}};
  of_value.collapse();
  return of_value;
}

/// Entries of a row that are added without a loop: somewhat more than a row has on average.
int64_t ahead_of(const NodeContext& c, const RowScatter& s) {
  if (!s.add) return 1;
  const int64_t wanted =
      div_up(2 * typical(c.graph, s.entries()), std::max<int64_t>(typical(c.graph, s.rows()), 1));
  int64_t ahead = 1;
  while (ahead < std::min(wanted, kMostAhead)) ahead *= 2;
  return ahead;
}

Step add_by_simd(const NodeContext& c, const Builder& b, const RowScatter& s, const Rows& rows,
                 const Expr& value_step) {
  const auto lanes = static_cast<int64_t>(c.device.subgroup_size);
  const int64_t ahead = ahead_of(c, s), most = std::min<int64_t>(kMostPairs / ahead, 16);
  const int64_t all = rows.inner.constant() ? div_up(*rows.inner.constant(), 2 * lanes) : most;
  const int64_t pairs = div_up(all, div_up(all, most));
  const Expr blocks = ceil_div(rows.inner, pairs * 2 * lanes);
  const Expr workgroups = rows.outer * s.rows() * blocks;
  const auto vector = [&](const std::string& name, ValueId id, const char* load) {
    const Value& value = c.graph.value(id);
    return value.dtype == DType::kF32 && (name == "v" || is_dense(value.shape, b.strides_of(id)))
               ? "simd_load(simd_at(" + name + "_ptr, i))"
               : name + load + "((i) + gl_SubgroupInvocationID)";
  };
  Step step{
      .kernel = "scatter_rows_simd",
      .defines = {{"ADD", flag(s.add)},
                  {"BASE", flag(s.base != kNoValue)},
                  {"PAIRS", text(pairs) + "u"},
                  {"AHEAD", text(ahead) + "u"},
                  {"ONE_BLOCK", flag(blocks == Expr(1))},
                  {"OUTER", flag(rows.outer != Expr(1))},
                  {"UNIFORM_ENTRY", simd_uniform(c.graph, s.entries() + 1)},
                  {"UNIFORM_GROUP", simd_uniform(c.graph, workgroups * 2)},
                  {"V_AT(i)", vector("v", s.values, "_raw")}},
      .operands = {src("v", s.values), dst("y", s.y)},
      .params = {param("count", rows.inner), param("rows", s.rows()), param("outer", rows.outer),
                 param("blocks", blocks), param("entries", s.entries()),
                 param("outer_step", rows.outer_step), param("value_step", value_step)},
      .grid = Grid::flat_groups(workgroups),
      .local_size = {c.device.subgroup_size, 1, 1},
      .subgroup_size = c.device.subgroup_size,
      .uniform_table = true,
      .iterations = s.entries(),
      .simd_row = rows.inner};
  if (s.base != kNoValue) {
    step.operands.push_back(src("x", s.base));
    step.defines.emplace_back("X_AT(i)", vector("x", s.base, "_load"));
  }
  return step;
}

}  // namespace

Step scatter_keys(const RowScatter& s, ValueId key) {
  Step step{.kernel = "scatter_keys"};
  LoopNest loops{.sizes = s.index_shape};
  std::string picks;
  for (size_t k = 0; k < s.indices.size(); ++k) {
    const std::string n = std::to_string(k);
    loops.targets.emplace_back("i" + n, s.index_strides[k]);
    step.operands.push_back(src("i" + n, s.indices[k]));
    step.params.push_back(param("size" + n, s.row_shape.at(k)));
    picks += "pick(row, int64_t(i" + n + "_raw(i" + n + "_offset)), size" + n + "); ";
  }
  step.operands.push_back(dst("key", key));
  step.params.push_back(param("entries", s.entries()));
  step.params.push_back(param("rows", s.rows()));
  step.params.push_back({.name = "dropped", .value = s.dropped, .number = DType::kI32});
  step.defines = {{"INDEX_PICKS(row)", picks},
                  {"PLACE", s.checked ? "tv_place" : "tv_near"},
                  {"WRAPS", flag(s.wraps)}};
  loops.collapse();
  loops.add_to(step, "entry");
  step.grid = one_each(s.entries(), 64);
  return step;
}

Step row_step(const std::string& kernel, const RowScatter& s) {
  Step step{.kernel = kernel,
            .defines = {{"ADD", flag(s.add)}, {"BASE", flag(s.base != kNoValue)}},
            .operands = {src("v", s.values), dst("y", s.y)},
            .params = {param("elements", product(s.out)), param("entries", s.entries())},
            .grid = one_each(product(s.out), 64),
            .iterations = s.entries()};
  if (s.base != kNoValue) step.operands.push_back(src("x", s.base));
  nest_of_y(s).add_to(step, "y");
  nest_of_values(s).add_to(step, "value");
  return step;
}

std::vector<Tactic> sorted_scatter(const NodeContext& c, Builder& b, const RowScatter& s) {
  if (!c.device.is_cpu()) return {};
  const std::string refusal = simd_refusal(c.device);
  if (!refusal.empty()) return {{.name = "scatter_rows_sorted", .refusal = refusal}};
  const Found found = find_entries(c, b, s);
  const std::vector<Operand> order = {src("start", found.start), src("at", found.at)};
  const auto tactic = [&](const std::string& name, Step step) {
    Tactic made{.name = name, .steps = found.steps};
    step.operands.insert(step.operands.end(), order.begin(), order.end());
    made.steps.push_back(std::move(step));
    return made;
  };
  Rows rows = rows_of(c, s, nest_of_y(s));
  const LoopNest values = nest_of_values(s);
  if (values.sizes.size() > 1) rows.refusal = "values of entries are not in steps";
  std::vector<Tactic> tactics;
  if (rows.refusal.empty()) {
    const Expr step = values.sizes.empty() ? Expr(0) : values.targets[0].second[0];
    tactics.push_back(tactic("scatter_rows_simd", add_by_simd(c, b, s, rows, step)));
  } else {
    tactics.push_back({.name = "scatter_rows_simd", .refusal = rows.refusal});
  }
  tactics.push_back(tactic("scatter_rows_sorted", row_step("scatter_rows_sorted", s)));
  return tactics;
}

}  // namespace tv
