#include "converters/kit/row_tiles.h"

#include <algorithm>

#include "converters/kit/simd.h"

namespace tv {

namespace {

constexpr int64_t kMostLoads = 512;  ///< of a workgroup, which are all written out
constexpr int64_t kMostOfSpan = 128;
constexpr int64_t kMostRows = 8;
constexpr int64_t kMostOfGrid = 65535;

struct Span {
  int64_t count = 0, vectors = 0;
  /// A vector is loaded by fours.
  int64_t loads(int64_t lanes) const { return vectors * lanes / 4 + count - vectors * lanes; }
};

Span span_of(const NodeContext& c, const RowTiles& t) {
  const int64_t lanes = c.device.subgroup_size;
  const auto [least, most] = t.in_width.bounds(c.graph.symbols);
  Span s{.count = std::min(t.reach + 1, most)};
  const int64_t whole = div_up(s.count, lanes);
  if (!t.dense) return {whole * lanes, whole};
  constexpr int64_t kFewElements = 3;  // that cost less than a vector of which they are a part
  if (s.count % lanes > kFewElements && whole * lanes <= least) s.count = whole * lanes;
  s.vectors = s.count <= least ? s.count / lanes : 0;
  return s;
}

/// The function that makes a place in a grid of `count` uniform.
std::string uniform_of(const NodeContext& c, const Expr& count) {
  const bool small = count.bounds(c.graph.symbols).second <= 512;
  return small ? "simd_uniform_small(i)" : "simd_uniform(i)";
}

}  // namespace

std::string row_tiles_refusal(const NodeContext& c, const RowTiles& t) {
  std::string refusal = simd_refusal(c.device);
  if (!refusal.empty()) return refusal;
  const Span span = span_of(c, t);
  if (span.count > kMostOfSpan || t.rows_read * span.loads(c.device.subgroup_size) > kMostLoads) {
    return "a vector of results reads too many elements";
  }
  return "";
}

void add_row_tiles(const NodeContext& c, const RowTiles& t, Step& step) {
  const int64_t lanes = c.device.subgroup_size;
  const auto [least, most] = t.width.bounds(c.graph.symbols);
  const Span span = span_of(c, t);
  const bool whole = t.moves_back && least >= 2 * lanes;
  const int64_t halves = most > lanes ? 2 : 1;
  const int64_t loads = t.rows_read * span.loads(lanes) * halves;
  const int64_t lines = std::max<int64_t>(1, t.lines.bounds(c.graph.symbols).second);
  const int64_t rows = std::clamp<int64_t>(kMostLoads / loads, 1, std::min(kMostRows, lines));
  const Expr tiles = ceil_div(t.width, halves * lanes), places = tiles * ceil_div(t.lines, rows);
  // Of a dimension of a grid, and what quotients of floats are right for.
  const bool is_large = std::max(places.bounds(c.graph.symbols).second,
                                 t.planes.bounds(c.graph.symbols).second) > kMostOfGrid;
  step.defines.insert(step.defines.end(), {{"FLAT", flag(is_large)},
                                           {"SPAN", text(span.count) + "u"},
                                           {"VECTORS", text(span.vectors) + "u"},
                                           {"BY_LANES", flag(!t.dense)},
                                           {"HALVES", text(halves) + "u"},
                                           {"ROWS", text(rows) + "u"},
                                           {"WHOLE", flag(whole)},
                                           {"PLACE_OF(i)", uniform_of(c, places)},
                                           {"PLANE_OF(i)", uniform_of(c, t.planes)}});
  step.params.insert(step.params.end(),
                     {param("tiles", tiles), param("lines", t.lines), param("width_out", t.width)});
  if (is_large) step.params.push_back(param("places", places));
  step.grid = is_large ? Grid::flat_groups(places * t.planes) : Grid{{places, t.planes, 1}};
  step.local_size = {static_cast<uint32_t>(lanes), 1, 1};
  step.subgroup_size = static_cast<uint32_t>(lanes);
  step.uniform_table = true;
  step.simd_row = t.width;
}

}  // namespace tv
