#include "converters/gemm.h"

#include <algorithm>

namespace tv {

namespace {

constexpr int64_t kSmallGrid = 512;
constexpr size_t kOffsets = 8;  // segments of the longest chunk, and of gemm_lane's parameters

std::string text(int64_t value) { return std::to_string(value); }

/// Segments that the next launch takes: few sizes, so that few pipelines are compiled.
size_t chunk_of(size_t left) { return left >= kOffsets ? kOffsets : left >= 4 ? 4 : 1; }

bool is_small(const NodeContext& c, const std::array<Expr, 3>& groups) {
  return std::all_of(groups.begin(), groups.end(),
                     [&](const Expr& g) { return g.bounds(c.graph.symbols).second < kSmallGrid; });
}

/// 1 where value > limit, else 0.
Expr more_than(const Expr& value, int64_t limit) {
  return min(Expr(1), max(Expr(0), value - limit));
}

/// Adds the steps of k past the last segment.
void add_rest(const LaneProduct& p, const LaneTile& tile, const LaneSums& sums,
              std::vector<Step>& steps) {
  const int64_t covered = static_cast<int64_t>(p.segments.size()) * kLaneSegment;
  const Expr left = max(Expr(0), *p.steps - covered);
  const Expr total = p.batch * p.rows * sums.c_m * more_than(*p.steps, covered);
  steps.push_back(
      {.kernel = "gemm_rest",
       .defines = {{"TILE", text(tile.cols())}},
       .operands = {src("a", p.a),
                    src("b", p.b),
                    {.name = "c", .value = sums.value, .write = true, .read_write = true}},
       .params = {param("total", total), param("rows", p.rows), param("k_first", covered),
                  param("k_count", *p.steps), param("a_m", p.a_m), param("a_z", p.a_z),
                  param("b_k", p.b_k), param("b_z", p.b_z), param("b_tile", p.b_tile),
                  param("c_m", sums.c_m), param("c_z", sums.c_z)},
       .grid = one_each(total, 64),
       .local_size = {64, 1, 1},
       .iterations = left + ceil_div(left, 32)});
}

}  // namespace

LaneTile lane_tile(const DeviceProfile& device) {
  if (device.subgroup_size == 8) return {8, 6};
  return {16, 8};
}

std::string lane_refusal(const DeviceProfile& device) {
  if (!device.is_cpu()) return "the device is not a CPU";
  if (!device.int64) return "the device has no 64-bit integers";
  if (device.subgroup_size != 8 && device.subgroup_size != 16) {
    return "subgroups of " + text(device.subgroup_size) + " lanes; 8 or 16 are wanted";
  }
  return "";
}

LaneSums add_lane_product(const NodeContext& c, Builder& b, const LaneProduct& p,
                          std::vector<Step>& steps) {
  const LaneTile tile = lane_tile(c.device);
  const Expr row_tiles = ceil_div(p.rows, tile.rows);
  LaneSums sums;
  sums.c_m = p.col_tiles * tile.cols();
  sums.c_z = row_tiles * tile.rows * sums.c_m;
  sums.value = b.scratch("sums", DType::kF32, {p.batch, row_tiles * tile.rows, sums.c_m});

  for (size_t first = 0; first < p.segments.size();) {
    const size_t count =
        p.steps ? kLaneSymbolicSteps / kLaneSegment : chunk_of(p.segments.size() - first);
    std::string offsets;
    std::vector<Param> params = {param("a_0", Expr(static_cast<int64_t>(first) * kLaneSegment)),
                                 param("a_m", p.a_m),
                                 param("a_z", p.a_z),
                                 param("m_last", p.rows - 1),
                                 param("b_k", p.b_k),
                                 param("b_z", p.b_z),
                                 param("b_tile", p.b_tile),
                                 param("b_last", p.b_last),
                                 param("c_m", sums.c_m),
                                 param("c_z", sums.c_z)};
    for (size_t s = 0; s < count; ++s) {
      params.push_back(param("b_s" + std::to_string(s), p.segments[first + s]));
      offsets += (s != 0 ? ", b_s" : "b_s") + std::to_string(s);
    }
    Step step{.kernel = "gemm_lane",
              .defines = {{"ROWS", text(tile.rows)},
                          {"SEG", text(kLaneSegment)},
                          {"SEGS", std::to_string(count)},
                          {"OFFSETS", offsets}},
              .operands = {src("a", p.a),
                           src("b", p.b),
                           {.name = "c", .value = sums.value, .write = true, .read_write = true}},
              .params = std::move(params),
              .grid = {{row_tiles, p.col_tiles, p.batch}},
              .local_size = {static_cast<uint32_t>(tile.lanes), 1, 1},
              .uniform_table = true};
    step.defines.emplace_back("SMALL_GRID", is_small(c, step.grid.groups) ? "1" : "0");
    if (p.steps)
      step.grid.groups[0] *= more_than(*p.steps, static_cast<int64_t>(first) * kLaneSegment);
    steps.push_back(std::move(step));
    first += count;
  }
  if (p.steps) add_rest(p, tile, sums, steps);
  return sums;
}

void add_lane_finish(const NodeContext& c, const LaneSums& sums, const LaneOutput& out,
                     std::vector<Step>& steps) {
  const LaneTile tile = lane_tile(c.device);
  const LaneColumns& columns = out.columns;
  const bool pitched = !(columns.gap == Expr(0));
  const bool wide = columns.count.bounds(c.graph.symbols).first >= tile.cols();
  Step step{
      .kernel = "gemm_finish",
      .defines = {{"ROWS", text(tile.rows)},
                  {"PITCHED", pitched ? "1" : "0"},
                  {"MOVED", columns.moved ? "1" : "0"},
                  {"WIDE", wide ? "1" : "0"}},
      .operands = {src("c", sums.value), dst("y", c.node.outputs[0])},
      .params = {param("rows", out.rows), param("cols", columns.count), param("c_m", sums.c_m),
                 param("c_z", sums.c_z)},
      .grid = {{ceil_div(out.rows, tile.rows), ceil_div(columns.count, tile.cols()), out.batch}},
      .local_size = {static_cast<uint32_t>(tile.lanes), 1, 1},
      .uniform_table = true,
      .lane_row = columns.count};
  step.defines.emplace_back("SMALL_GRID", is_small(c, step.grid.groups) ? "1" : "0");
  step.defines.emplace_back("BIAS", out.bias != kNoValue ? "1" : "0");
  if (out.bias != kNoValue) {
    step.operands.push_back(src("bias", out.bias));
    step.params.push_back(param("groups", out.groups));
  }
  if (pitched) {
    step.params.push_back(param("width", columns.width));
    step.params.push_back(param("gap", columns.gap));
  }
  steps.push_back(std::move(step));
}

void BatchDims::collapse() {
  BatchDims out;
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] == Expr(1)) continue;
    if (!out.sizes.empty() && out.a.back() == a[i] * sizes[i] && out.b.back() == b[i] * sizes[i]) {
      out.sizes.back() *= sizes[i];
      out.a.back() = a[i];
      out.b.back() = b[i];
    } else {
      out.sizes.push_back(sizes[i]);
      out.a.push_back(a[i]);
      out.b.push_back(b[i]);
    }
  }
  *this = std::move(out);
}

void add_batch(Step& step, const BatchDims& batch, const Shape& strides,
               const std::string& prefix) {
  for (size_t i = 0; i < strides.size(); ++i) {
    step.params.push_back(param(prefix + std::to_string(i), strides[i]));
  }
  for (const auto& [key, value] : step.defines) {
    if (key == "BATCH_DIMS") return;
  }
  step.defines.emplace_back("BATCH_DIMS", std::to_string(batch.sizes.size()));
  if (batch.sizes.size() > 1) {
    step.params.push_back(param("n1", product_of(batch.sizes, 1, batch.sizes.size())));
  }
  if (batch.sizes.size() > 2) step.params.push_back(param("n2", batch.sizes[2]));
}

ValueId add_pack(const NodeContext& c, Builder& b, const std::string& name,
                 const PackSource& source, const BatchDims& batch, const Shape& batch_strides,
                 const PackLayout& layout, std::vector<Step>& steps) {
  const Expr rows = round_up(source.rows, layout.rows_multiple);
  const Expr tiles = ceil_div(round_up(source.cols, layout.cols_multiple), layout.width);
  const Expr y_r = layout.tiled ? Expr(layout.width) : tiles * layout.width;
  const Expr y_t = layout.tiled ? rows * layout.width : Expr(layout.width);
  const Expr y_z = rows * tiles * layout.width;
  const ValueId packed = b.scratch(name, DType::kF32, {batch.count(), rows * tiles * layout.width});
  constexpr int64_t kRuns = 16;
  const bool is_f32 = c.graph.value(source.value).dtype == DType::kF32;
  const auto goes_in = [](const Expr& size, int64_t run) {
    return size.constant().value_or(1) % run == 0;
  };
  const bool by_rows = is_f32 && source.row_stride == Expr(1) && goes_in(source.rows, kRuns);
  const bool by_cols = is_f32 && source.col_stride == Expr(1) && goes_in(source.cols, layout.width);
  Step step{
      .kernel = "gemm_pack",
      .defines = {{"WIDTH", text(layout.width) + "u"},
                  {"RUNS", text(kRuns) + "u"},
                  {"BY_ROWS", by_rows ? "1" : "0"},
                  {"BY_COLS", by_cols ? "1" : "0"}},
      .operands = {src("x", source.value), dst("y", packed)},
      .params = {param("rows", source.rows), param("cols", source.cols), param("rows_padded", rows),
                 param("s_row", source.row_stride), param("s_col", source.col_stride),
                 param("y_r", y_r), param("y_t", y_t), param("y_z", y_z)},
      .grid = {{tiles, ceil_div(rows, kRuns), batch.count()}},
      .local_size = {static_cast<uint32_t>(lane_tile(c.device).lanes), 1, 1},
      .uniform_table = true};
  if (by_rows) std::swap(step.grid.groups[0], step.grid.groups[1]);
  add_batch(step, batch, batch_strides, "s");
  steps.push_back(std::move(step));
  return packed;
}

}  // namespace tv
