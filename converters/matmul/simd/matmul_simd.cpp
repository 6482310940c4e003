#include "converters/matmul/simd/matmul_simd.h"

#include <algorithm>

#include "csrc/graph/strided.h"

namespace tv {

namespace {

constexpr int64_t kSmallGrid = 512;
constexpr size_t kOffsets = 8;  // segments of the longest chunk, and of matmul_simd's parameters
// Segments of a launch that writes the output: longer ones compile for 20 s.
constexpr size_t kLast = 4;

/// Segments that the next launch takes: few sizes, so that few pipelines are compiled.
size_t chunk_of(size_t left) { return left >= kOffsets ? kOffsets : left >= 4 ? 4 : 1; }

/// 1 where value > limit, else 0.
Expr more_than(const Expr& value, int64_t limit) {
  return min(Expr(1), max(Expr(0), value - limit));
}

/// Adds the steps of k past the last segment.
void add_rest(const SimdProduct& p, const SimdTile& tile, const SimdSums& sums,
              std::vector<Step>& steps) {
  const int64_t covered = static_cast<int64_t>(p.count) * kSimdSegment;
  const Expr left = max(Expr(0), *p.steps - covered);
  const Expr total = p.batch * p.rows * sums.c_m * more_than(*p.steps, covered);
  steps.push_back(
      {.kernel = "matmul_simd_rest",
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

bool has_integer_sums(const NodeContext& c) { return c.output().dtype == DType::kI32; }

bool simd_grid_is_small(const NodeContext& c, const std::array<Expr, 3>& groups) {
  return std::all_of(groups.begin(), groups.end(),
                     [&](const Expr& g) { return g.bounds(c.graph.symbols).second < kSmallGrid; });
}

SimdTile simd_tile(const DeviceProfile& device) {
  if (device.subgroup_size == 8) return {8, 6};
  return {16, 8};
}

namespace {

/// One launch of a product: `count` segments from `first` on.
struct SimdChunk {
  size_t first = 0, count = 0;
  const SimdEpilogue* epilogue = nullptr;  ///< writes the output, else the sums
};

/// Where the segments of a chunk begin in b: as macros, made of parameters.
struct SegmentOffsets {
  std::string text;
  std::vector<Param> params;
};

/// A parameter for each segment.
SegmentOffsets offsets_one_by_one(const SimdProduct& p, const SimdChunk& chunk) {
  SegmentOffsets out;
  for (size_t s = 0; s < chunk.count; ++s) {
    const std::string n = std::to_string(s);
    out.text += s != 0 ? ", " : "";
    if (p.segments.empty()) {
      out.text += "(A_0 + " + n + " * SEG) * B_K";
    } else {
      out.text += "b_s" + n;
      out.params.push_back(param("b_s" + n, p.segments[chunk.first + s]));
    }
  }
  return out;
}

/// As sums of multiples of few parameters, counted from the first segment of the chunk: so chunks
/// with the same part of a window share a pipeline.
SegmentOffsets offsets_by_strides(const SimdProduct& p, const SimdChunk& chunk) {
  SegmentOffsets out;
  std::array<bool, std::tuple_size_v<decltype(p.place_strides)>> used{};
  const SimdPlace& first = p.places[chunk.first];
  out.params.push_back(param("b_s0", p.offset(first)));
  for (size_t s = 0; s < chunk.count; ++s) {
    const SimdPlace& place = p.places[chunk.first + s];
    // Differences below 0 become large; sums wrap round to what is meant.
    const auto number = [](int64_t v) { return std::to_string(static_cast<uint32_t>(v)) + "u"; };
    out.text += (s != 0 ? ", b_s0 + " : "b_s0 + ") + number(place.plus - first.plus);
    for (size_t i = 0; i < p.place_strides.size(); ++i) {
      const int64_t times = place.times[i] - first.times[i];
      if (times == 0) continue;
      const std::string name = "b_u" + std::to_string(i);
      out.text += " + " + name + " * " + number(times);
      if (!used[i]) out.params.push_back(param(name, p.place_strides[i]));
      used[i] = true;
    }
  }
  return out;
}

/// Segments of each launch of a product with `places`: parts of one length, if there are some, so
/// that they share a pipeline.
size_t chunk_of_places(const SimdProduct& p) {
  // Steps: longer launches compile for half a minute. Nine taps of 32 channels.
  constexpr int64_t kLongest = 288;
  const size_t all = p.places.size(), most = static_cast<size_t>(kLongest / p.segment);
  if (all <= most) return all;
  for (size_t count = most; count > most / 2; --count) {
    if (all % count == 0) return count;
  }
  const size_t launches = (all + most - 1) / most;
  return (all + launches - 1) / launches;
}

/// The rows of a tile, to a launch.
void add_plan(const SimdPlan& plan, Step& step) {
  const bool grouped = plan.value != kNoValue;
  step.defines.emplace_back("GROUPED", flag(grouped));
  if (!grouped) return;
  step.operands.push_back(src("plan", plan.value));
  step.defines.emplace_back("PLAN_UNIFORM", plan.uniform);
}

Expr row_tiles(const SimdPlan& plan, const Expr& rows, const SimdTile& tile) {
  return plan.value != kNoValue ? plan.tiles : ceil_div(rows, tile.rows);
}

SimdTile tile_of(const NodeContext& c, int64_t rows) {
  SimdTile tile = simd_tile(c.device);
  if (rows != 0) tile.rows = rows;
  return tile;
}

Step simd_step(const NodeContext& c, const SimdProduct& p, const SimdSums& sums,
               const SimdChunk& chunk) {
  const SimdTile tile = tile_of(c, p.tile_rows);
  const bool packed = p.b_k == Expr(tile.cols());
  const bool add = chunk.epilogue == nullptr || chunk.first > 0;
  Step step{.kernel = "matmul_simd",
            .defines = {{"ROWS", text(tile.rows)},
                        {"SEG", text(p.segment)},
                        {"SEGS", text(static_cast<int64_t>(chunk.count))},
                        {"REST", text(chunk.first + chunk.count == p.count ? p.rest : 0)},
                        {"LAST", chunk.epilogue != nullptr ? "1" : "0"},
                        {"ADD", add ? "1" : "0"},
                        {"INTEGER", flag(has_integer_sums(c))},
                        {"A_0", add ? "a_0" : "0u"},
                        {"A_COUNT", text(p.a_count)},
                        {"B_K", packed ? "(2u * LANES)" : "b_k"}},
            .operands = {src("a", p.a), src("b", p.b)},
            .params = {param("a_m", p.a_m), param("b_z", p.b_z), param("b_tile", p.b_tile),
                       param("b_last", p.b_last)},
            .grid = {{row_tiles(p.plan, p.rows, tile), p.col_tiles, p.batch}},
            .local_size = {static_cast<uint32_t>(tile.lanes), 1, 1},
            .uniform_table = true};
  if (p.plan.value != kNoValue) {
    step.params.push_back(param("groups", p.plan.groups));
  } else {
    step.params.insert(step.params.end(), {param("a_z", p.a_z), param("m_last", p.rows - 1)});
  }
  add_plan(p.plan, step);
  if (!packed) step.params.push_back(param("b_k", p.b_k));
  SegmentOffsets offsets =
      p.places.empty() ? offsets_one_by_one(p, chunk) : offsets_by_strides(p, chunk);
  for (Param& offset : offsets.params) step.params.push_back(std::move(offset));
  step.defines.emplace_back("OFFSETS", std::move(offsets.text));
  step.defines.emplace_back("SMALL_GRID", simd_grid_is_small(c, step.grid.groups) ? "1" : "0");
  if (add) {
    step.params.push_back(param("a_0", Expr(static_cast<int64_t>(chunk.first) * p.segment)));
    step.operands.push_back({.name = "c",
                             .value = sums.value,
                             .write = chunk.epilogue == nullptr,
                             .read_write = chunk.epilogue == nullptr});
  }
  if (chunk.epilogue == nullptr) {
    step.defines.emplace_back("C_M", "c_m");
    step.defines.emplace_back("C_Z", "c_z");
    step.params.push_back(param("c_m", sums.c_m));
    step.params.push_back(param("c_z", sums.c_z));
    return step;
  }
  // What the parameters need not say leaves room for those of the epilogue.
  step.defines.emplace_back("C_M", "((cols + 2u * LANES - 1u) / (2u * LANES) * (2u * LANES))");
  step.defines.emplace_back("C_Z", "((m_last + ROWS) / ROWS * ROWS * C_M)");
  step.operands.push_back(dst("y", c.node.outputs[0]));
  step.params.push_back(param("cols", chunk.epilogue->cols));
  step.simd_row = chunk.epilogue->cols;
  return step;
}

SimdSums simd_sums(const NodeContext& c, Builder& b, const SimdProduct& p) {
  const SimdTile tile = tile_of(c, p.tile_rows);
  const Expr rows = row_tiles(p.plan, p.rows, tile) * tile.rows;
  SimdSums sums;
  sums.c_m = p.col_tiles * tile.cols();
  sums.c_z = rows * sums.c_m;
  sums.value = b.scratch("sums", DType::kF32, {p.batch, rows, sums.c_m});
  return sums;
}

}  // namespace

bool simd_epilogue_fits(const NodeContext& c, const Builder& b, size_t tables, size_t words) {
  const Shape& out = c.output().shape;
  const auto is_moved = [&](ValueId id) {
    const auto& view = c.graph.value(id).view;
    return view && !(view->offset == Expr(0));
  };
  const bool computes = c.output().dtype == DType::kF32 || has_integer_sums(c);
  if (!computes || is_moved(c.node.outputs[0]) || !is_dense(out, b.strides_of(c.node.outputs[0]))) {
    return false;
  }
  constexpr size_t kAddress = 8, kWord = 4, kTable = 8, kRemainder = 3, kMost = 128;
  size_t bytes = (4 + tables) * kAddress + (kTable + words + tables) * kWord;
  for (const ValueId id : c.node.epilogue_inputs) {
    const Value& value = c.graph.value(id);
    const Shape strides = b.strides_of(id);
    const bool whole = value.shape == out && is_dense(value.shape, strides);
    const bool row = !strides.empty() && strides.back() == Expr(1) &&
                     std::all_of(strides.begin(), std::prev(strides.end()),
                                 [](const Expr& stride) { return stride == Expr(0); });
    if (value.dtype != DType::kF32 || is_moved(id) || (!whole && !row)) return false;
    bytes += kAddress + (whole ? 0 : kRemainder * kWord);
  }
  return bytes <= kMost;
}

void add_simd_product(const NodeContext& c, Builder& b, const SimdProduct& p,
                      const SimdEpilogue& epilogue, std::vector<Step>& steps) {
  const SimdSums sums = p.count <= kLast ? SimdSums{} : simd_sums(c, b, p);
  for (size_t first = 0; first < p.count;) {
    const size_t left = p.count - first;
    const size_t count = left <= kLast ? left : chunk_of(left - kLast);
    steps.push_back(simd_step(
        c, p, sums,
        {.first = first, .count = count, .epilogue = left <= kLast ? &epilogue : nullptr}));
    first += count;
  }
}

SimdSums add_simd_product(const NodeContext& c, Builder& b, const SimdProduct& p,
                          std::vector<Step>& steps) {
  const SimdSums sums = simd_sums(c, b, p);
  const size_t of_places = p.places.empty() ? 0 : chunk_of_places(p);
  const size_t all = of_places != 0       ? p.places.size()
                     : p.segments.empty() ? p.count
                                          : p.segments.size();
  for (size_t first = 0; first < all;) {
    const size_t count = of_places != 0 ? std::min(of_places, all - first)
                         : p.steps      ? kSimdSymbolicSteps / kSimdSegment
                                        : chunk_of(all - first);
    Step step = simd_step(c, p, sums, {.first = first, .count = count});
    if (p.steps) {
      step.grid.groups[0] *= more_than(*p.steps, static_cast<int64_t>(first) * kSimdSegment);
    }
    steps.push_back(std::move(step));
    first += count;
  }
  if (p.steps) add_rest(p, simd_tile(c.device), sums, steps);
  return sums;
}

void add_simd_finish(const NodeContext& c, const SimdSums& sums, const SimdOutput& out,
                     std::vector<Step>& steps) {
  const SimdTile tile = tile_of(c, out.tile_rows);
  const SimdColumns& columns = out.columns;
  const bool deep = !(columns.height == Expr(1));
  const bool pitched = !(columns.gap == Expr(0)) || deep;
  const auto [fewest, most] = columns.count.bounds(c.graph.symbols);
  const bool wide = fewest >= tile.cols(), small = most < 1 << 21;
  // Rows of an image that a vector of outputs has a part of.
  constexpr int64_t kMostRows = 4;
  const auto width = columns.width.constant();
  int64_t image_rows = pitched && !deep && wide && width ? div_up(tile.lanes - 1, *width) + 1 : 0;
  if (image_rows > kMostRows) image_rows = 0;
  Step step{.kernel = "matmul_simd_finish",
            .defines = {{"ROWS", text(tile.rows)},
                        {"IMAGE_ROWS", text(image_rows)},
                        {"PITCHED", pitched ? "1" : "0"},
                        {"SMALL_COLUMNS", small ? "1" : "0"},
                        {"MOVED", columns.moved ? "1" : "0"},
                        {"INTEGER", flag(has_integer_sums(c))},
                        {"WIDE", wide ? "1" : "0"}},
            .operands = {src("c", sums.value), dst("y", c.node.outputs[0])},
            .params = {param("rows", out.rows), param("cols", columns.count),
                       param("c_m", sums.c_m), param("c_z", sums.c_z)},
            .grid = {{row_tiles(out.plan, out.rows, tile), ceil_div(columns.count, tile.cols()),
                      out.batch}},
            .local_size = {static_cast<uint32_t>(tile.lanes), 1, 1},
            .uniform_table = true,
            .simd_row = columns.count};
  step.defines.emplace_back("SMALL_GRID", simd_grid_is_small(c, step.grid.groups) ? "1" : "0");
  add_plan(out.plan, step);
  step.defines.emplace_back("BIAS", out.bias != kNoValue ? "1" : "0");
  if (out.bias != kNoValue) {
    step.operands.push_back(src("bias", out.bias));
    step.params.push_back(param("groups", out.groups));
  }
  if (pitched) {
    step.params.push_back(param("width", columns.width));
    step.params.push_back(param("gap", columns.gap));
  }
  if (deep) {
    step.defines.emplace_back("DEPTH", "1");
    step.params.push_back(param("height", columns.height));
    step.params.push_back(param("depth_gap", columns.depth_gap));
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
  const bool moved = layout.moved && !(mod(source.cols, layout.width) == Expr(0));
  const bool by_cols = is_f32 && source.col_stride == Expr(1) && goes_in(source.cols, layout.width);
  Step step{
      .kernel = "matmul_simd_pack",
      .defines = {{"WIDTH", text(layout.width) + "u"},
                  {"RUNS", text(kRuns) + "u"},
                  {"BY_ROWS", by_rows ? "1" : "0"},
                  {"BY_COLS", by_cols ? "1" : "0"},
                  {"MOVED", moved ? "1" : "0"}},
      .operands = {src("x", source.value), dst("y", packed)},
      .params = {param("rows", source.rows), param("cols", source.cols), param("rows_padded", rows),
                 param("s_row", source.row_stride), param("s_col", source.col_stride),
                 param("y_r", y_r), param("y_t", y_t), param("y_z", y_z)},
      .grid = {{tiles, ceil_div(rows, kRuns), batch.count()}},
      .local_size = {static_cast<uint32_t>(simd_tile(c.device).lanes), 1, 1},
      .uniform_table = true};
  if (by_rows) std::swap(step.grid.groups[0], step.grid.groups[1]);
  add_batch(step, batch, batch_strides, "s");
  steps.push_back(std::move(step));
  return packed;
}

}  // namespace tv
