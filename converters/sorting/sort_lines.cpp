#include "converters/sorting/sort_lines.h"

#include <algorithm>
#include <bit>

namespace tv {
namespace {

constexpr int64_t kTile = 1024;  // elements of a tile: 12 KiB of shared memory at most
constexpr int64_t kLeastTile = 16;
constexpr int64_t kWays = 4;                         // runs that a merge makes one
constexpr int64_t kChunk = 64;                       // elements that an invocation merges
constexpr int64_t kMostElements = int64_t{1} << 31;  // of any tensor

struct TileShape {
  int64_t segment = kTile;   // elements that are sorted together
  int64_t elements = kTile;  // of a workgroup
  uint32_t local() const { return static_cast<uint32_t>(std::max<int64_t>(elements / 4, 16)); }
};

int64_t power_of_two_from(int64_t least) {
  return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(least)));
}

TileShape tile_shape(const NodeContext& c, const SortLines& lines) {
  TileShape shape;
  // A barrier costs a CPU driver more than a merge of everything: it begins with runs of one.
  if (c.device.is_cpu()) return {.segment = 1, .elements = 64};
  shape.segment = power_of_two_from(std::clamp(longest(c, lines), kLeastTile, kTile));
  const int64_t all = shape.segment * std::max<int64_t>(typical(c.graph, lines.lines()), 1);
  shape.elements = std::max(shape.segment, std::min(power_of_two_from(all), kTile));
  return shape;
}

Step tile_step(const NodeContext& c, const SortLines& lines) {
  const TileShape shape = tile_shape(c, lines);
  const DimSplit& at = lines.split;
  Step step{.kernel = "sort_tile",
            .defines = {{"SEGMENT", std::to_string(shape.segment) + "u"},
                        {"ELEMENTS", std::to_string(shape.elements) + "u"}},
            .operands = {src("x", lines.x.value)},
            .params = {param("rows", lines.lines()), param("count", at.size),
                       param("inner", at.inner), param("limit", lines.limit)},
            .local_size = {shape.local(), 1, 1}};
  add_key(step, lines.dtype, lines.descending);
  const Expr tiles = lines.lines() * ceil_div(at.size, shape.segment);
  step.grid = Grid::flat_groups(ceil_div(tiles, shape.elements / shape.segment));
  const int64_t stages = std::bit_width(static_cast<uint64_t>(shape.segment)) - 1;
  step.iterations = 4 * (stages * (stages + 1) / 2 + stages + 4);
  return step;
}

/// Merges runs of `run` elements, the `pass`-th merge of the lines.
Step merge_step(const SortLines& lines, int64_t run, int64_t pass) {
  const Expr runs = ceil_div(lines.split.size, run), alive = min(lines.limit, run);
  const Expr half = lines.lines() * lines.split.size;
  Step step{.kernel = "sort_merge",
            .defines = {{"WAYS", std::to_string(kWays) + "u"},
                        {"KEY", lines.dtype == DType::kI64 ? "int64_t" : "uint"}},
            .params = {param("rows", lines.lines()), param("count", lines.split.size),
                       param("limit", lines.limit), param("run", run), param("runs", runs),
                       param("alive", max(alive, 1)), param("from", half * (pass % 2)),
                       param("to", half * ((pass + 1) % 2))}};
  const Grid all = one_each(lines.lines() * runs * alive, 64);
  step.grid = Grid::flat_groups(all.groups[0] * is_needed(lines.split.size, run));
  step.iterations = kWays * 33;
  return step;
}

/// The same of two runs each, where an invocation bisects once for many elements: on CPU drivers,
/// of runs that are long enough.
Step path_step(const SortLines& lines, int64_t run, int64_t pass) {
  const Expr pairs = ceil_div(lines.split.size, 2 * run);
  const Expr chunks = ceil_div(max(min(lines.limit, 2 * run), 1), kChunk);
  const Expr half = lines.lines() * lines.split.size;
  Step step{.kernel = "sort_merge_path",
            .defines = {{"CHUNK", std::to_string(kChunk) + "u"},
                        {"KEY", lines.dtype == DType::kI64 ? "int64_t" : "uint"}},
            .params = {param("rows", lines.lines()), param("count", lines.split.size),
                       param("limit", lines.limit), param("run", run), param("pairs", pairs),
                       param("chunks", chunks), param("alive", max(min(lines.limit, run), 1)),
                       param("from", half * (pass % 2)), param("to", half * ((pass + 1) % 2))}};
  const Grid all = one_each(lines.lines() * pairs * chunks, 64);
  step.grid = Grid::flat_groups(all.groups[0] * is_needed(lines.split.size, run));
  step.iterations = kChunk + 33;
  return step;
}

}  // namespace

int64_t longest(const NodeContext& c, const SortLines& lines) {
  return std::min(lines.split.size.bounds(c.graph.symbols).second, kMostElements);
}

Expr is_needed(const Expr& size, int64_t run) { return max(min(ceil_div(size, run) - 1, 1), 0); }

void add_key(Step& step, DType dtype, bool descending) {
  const bool is64 = dtype == DType::kI64;
  step.defines.insert(step.defines.end(),
                      {{"KEY", is64 ? "int64_t" : "uint"},
                       {"KEY_MOST", is64 ? "0x7fffffffffffffffL" : "0xffffffffu"},
                       {"FLOAT_KEY", is_float(dtype) ? "1" : "0"},
                       {"INT64_KEY", is64 ? "1" : "0"},
                       {"DESCENDING", descending ? "1" : "0"}});
}

void SortedLines::add_to(Step& step, const SortLines& lines) const {
  step.operands.insert(step.operands.end(), {src("keys", keys), src("at", at)});
  step.params.insert(
      step.params.end(),
      {param("rows", lines.lines()), param("count", lines.split.size),
       param("inner", lines.split.inner), param("from", from), param("pitch", pitch)});
  add_key(step, lines.dtype, lines.descending);
}

SortLines sort_lines(const NodeContext& c) {
  SortLines lines;
  const Shape& shape = c.shape("self");
  const auto rank = static_cast<int64_t>(shape.size());
  lines.x = {.value = c.node.input("self"), .shape = shape};
  lines.dtype = c.dtype("self");
  if (c.node.find("dim") == nullptr) {
    lines.split = {.outer = 1, .size = product(shape), .inner = 1};
  } else if (rank > 0) {
    const int64_t dim = c.node.has("dim") ? c.node.integer("dim") : -1;
    lines.split = split_at(shape, c.wrap(dim, rank));
  }
  lines.limit = lines.split.size;
  return lines;
}

bool is_one_tile(const NodeContext& c, const SortLines& lines) {
  return !c.device.is_cpu() && longest(c, lines) <= kTile;
}

Step sort_directly(const NodeContext& c, const SortLines& lines, ValueId y, ValueId indices) {
  Step step = tile_step(c, lines);
  step.operands.push_back(dst("y", y));
  if (indices != kNoValue) step.operands.push_back(dst("idx", indices));
  step.defines.insert(step.defines.end(),
                      {{"DIRECT", "1"}, {"INDICES", indices == kNoValue ? "0" : "1"}});
  return step;
}

SortedLines sort(const NodeContext& c, Builder& b, const SortLines& lines,
                 std::vector<Step>& steps) {
  const Shape both = {2, lines.lines(), lines.split.size};
  const DType key = lines.dtype == DType::kI64 ? DType::kI64 : DType::kI32;
  SortedLines sorted{.keys = b.scratch("keys", key, both),
                     .at = b.scratch("at", DType::kI32, both),
                     .pitch = lines.split.size};
  Step tiles = tile_step(c, lines);
  tiles.defines.insert(tiles.defines.end(), {{"DIRECT", "0"}, {"INDICES", "0"}});
  tiles.operands.insert(tiles.operands.end(), {dst("keys", sorted.keys), dst("at", sorted.at)});
  steps.push_back(std::move(tiles));

  Expr merges = 0;
  int64_t pass = 0;
  for (int64_t run = tile_shape(c, lines).segment, ways = kWays; run < longest(c, lines);
       run *= ways, ++pass) {
    const bool by_path = c.device.is_cpu() && run >= kChunk;
    ways = by_path ? 2 : kWays;
    Step step = by_path ? path_step(lines, run, pass) : merge_step(lines, run, pass);
    for (const auto& [name, value] : {std::pair{"keys", sorted.keys}, {"at", sorted.at}}) {
      Operand both_halves = dst(name, value);
      both_halves.read_write = true;
      step.operands.push_back(both_halves);
    }
    steps.push_back(std::move(step));
    merges += is_needed(lines.split.size, run);
  }
  sorted.from = mod(merges, 2) * lines.lines() * lines.split.size;
  return sorted;
}

}  // namespace tv
