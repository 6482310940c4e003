// 3x3 convolutions on CPU drivers in Winograd's points: transforms around (OUT + 2)^2 products,
// which multiply 2.25 (OUT = 2) or 4 times (OUT = 4) less than the direct ones (docs/design/0012).

#include "converters/convolution/convolution_planes.h"
#include "csrc/settings.h"

namespace tv {

namespace {

constexpr int64_t kWindow = 3;

std::string refusal_of(const NodeContext& c, const ConvShape& s) {
  if (!c.settings.allow_transformed_convolutions) return "allow_transformed_convolutions is False";
  const std::string refusal = simd_refusal(c.device);
  if (!refusal.empty()) return refusal;
  if (s.x_zero != kNoValue || s.w_zero != kNoValue) return "integers";
  if (!s.is_planar() || !(s.kernel[1] == Expr(kWindow)) || !(s.kernel[2] == Expr(kWindow))) {
    return "the window is not 3x3";
  }
  for (size_t k = 1; k < 3; ++k) {
    if (s.stride[k] != 1 || s.dilation[k] != 1 || s.lhs[k] != 1) {
      return "a stride or dilation, or a transposed convolution";
    }
  }
  if (!(s.groups == Expr(1))) return "several groups";
  if (!s.ic.constant() || !s.oc.constant()) return "channels are symbolic";
  return "";
}

/// As a convolution whose outputs are the tiles, which read patches of out + 2 pixels.
ConvShape tiles_of(ConvShape s, int64_t out) {
  for (size_t k = 1; k < 3; ++k) {
    s.stride[k] = out;
    s.kernel[k] = out + kWindow - 1;
    s.out[k] = ceil_div(s.out[k], out);
  }
  return s;
}

std::pair<std::string, std::string> out_define(int64_t out) { return {"OUT", text(out)}; }

/// What the transforms and the products between them agree on.
struct TileGrid {
  int64_t out;      ///< rows and columns of a tile
  ConvShape tiles;  ///< tiles_of
  Plane plane;      ///< of the padded input
  int64_t channels, points;
  Expr columns;  ///< of a product, one for each tile, and what fills its last vector
};

TileGrid grid_of(const NodeContext& c, const ConvShape& s, int64_t out) {
  const int64_t cols = simd_tile(c.device).cols();
  TileGrid grid{.out = out,
                .tiles = tiles_of(s, out),
                .channels = (*s.ic.constant() + kSimdSegment - 1) / kSimdSegment * kSimdSegment,
                .points = (out + kWindow - 1) * (out + kWindow - 1)};
  grid.plane = plane_of(grid.tiles, cols);
  grid.columns = ceil_div(grid.plane.columns(grid.tiles), cols) * cols;
  return grid;
}

/// [points][oc][channels], channels past the input's being zeros.
ValueId transform_weight(Builder& b, const ConvShape& s, const TileGrid& grid,
                         std::vector<Step>& steps) {
  constexpr uint32_t kThreads = 64;
  const ValueId y =
      b.scratch("weight", DType::kF32, {Expr(grid.points), s.oc, Expr(grid.channels)});
  Step step{.kernel = "conv_winograd_weight",
            .defines = {out_define(grid.out)},
            .operands = {src("w", s.w), dst("y", y)},
            .params = {param("k_padded", Expr(grid.channels)), param("oc_count", s.oc),
                       param("ic_count", s.ic)},
            .grid = {{Expr((grid.channels - 1) / kThreads + 1), s.oc, 1}},
            .local_size = {kThreads, 1, 1}};
  add_weight(step, s);
  steps.push_back(std::move(step));
  return y;
}

/// [images · points][channels][columns].
ValueId transform_input(const NodeContext& c, Builder& b, const TileGrid& grid,
                        std::vector<Step>& steps) {
  const SimdTile tile = simd_tile(c.device);
  const Plane& p = grid.plane;
  const Expr channels = grid.channels, images = grid.tiles.n;
  const ValueId x = add_pad(c, b, grid.tiles, p, channels, steps);
  const ValueId y =
      b.scratch("points", DType::kF32, {images * grid.points, channels, grid.columns});
  steps.push_back({.kernel = "conv_winograd_input",
                   .defines = {out_define(grid.out)},
                   .operands = {src("x", x), dst("y", y)},
                   .params = {param("channels", channels), param("plane", p.plane),
                              param("phase_size", p.phase_size), param("pitch", p.pitch),
                              param("tiles", grid.columns)},
                   .grid = {{ceil_div(grid.columns, tile.cols()), channels, images}},
                   .local_size = {static_cast<uint32_t>(tile.lanes), 1, 1},
                   .uniform_table = true});
  return y;
}

Step transform_output(const NodeContext& c, const ConvShape& s, const TileGrid& grid,
                      const SimdSums& sums) {
  const int64_t lanes = simd_tile(c.device).lanes;
  const Expr columns = grid.plane.columns(grid.tiles);
  const bool small = columns.bounds(c.graph.symbols).second < kSmallPlane - lanes;
  Step step{
      .kernel = "conv_winograd_output",
      .defines = {out_define(grid.out),
                  {"SMALL_PLANE", flag(small)},
                  {"BIAS", flag(s.bias != kNoValue)}},
      .operands = {src("c", sums.value), dst("y", c.node.outputs[0])},
      .params = {param("c_m", sums.c_m), param("c_z", sums.c_z), param("pitch", grid.plane.pitch),
                 param("oc_count", s.oc), param("out_h", s.out[1]), param("out_w", s.out[2])},
      .grid = {{ceil_div(columns, lanes), s.oc, s.n}},
      .local_size = {static_cast<uint32_t>(lanes), 1, 1},
      .uniform_table = true};
  if (s.bias != kNoValue) step.operands.push_back(src("bias", s.bias));
  return step;
}

Tactic tactic_of(const NodeContext& c, Builder& b, const ConvShape& s, int64_t out, double error) {
  Tactic tactic{.name = "conv_winograd_" + text(out) + "x" + text(out),
                .refusal = refusal_of(c, s),
                .error = error};
  if (!tactic.refusal.empty()) return tactic;
  const SimdTile tile = simd_tile(c.device);
  const TileGrid grid = grid_of(c, s, out);
  SimdProduct p{.a = transform_weight(b, s, grid, tactic.steps),
                .b = transform_input(c, b, grid, tactic.steps),
                .rows = s.oc,
                .col_tiles = ceil_div(grid.plane.columns(grid.tiles), tile.cols()),
                .batch = s.n * grid.points,
                .a_m = grid.channels,
                .a_z = s.oc * grid.channels,
                .b_k = grid.columns,
                .b_z = grid.columns * grid.channels,
                .b_tile = tile.cols(),
                .b_last = grid.columns - tile.cols(),
                .a_count = grid.points};
  for (int64_t at = 0; at < grid.channels; at += kSimdSegment) {
    p.segments.push_back(grid.columns * at);
  }
  const SimdSums sums = add_simd_product(c, b, p, tactic.steps);
  tactic.steps.push_back(transform_output(c, s, grid, sums));
  return tactic;
}

}  // namespace

std::vector<Tactic> conv_winograd_tactics(const NodeContext& c, Builder& b, const ConvShape& s) {
  // Of numbers of one size: what the tuner may take for right, not a bound.
  return {tactic_of(c, b, s, 4, 0x1p-18), tactic_of(c, b, s, 2, 0x1p-21)};
}

}  // namespace tv
