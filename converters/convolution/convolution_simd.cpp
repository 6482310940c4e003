// Convolutions on CPU drivers: products of a packed weight with the input as it is (1x1), with a
// padded copy whose rows are shifted for each tap, or, for few channels, with the unfolded input.

#include <algorithm>

#include "converters/convolution/convolution_planes.h"
#include "converters/kit/row_tiles.h"

namespace tv {

namespace {

constexpr int64_t kMostSegments = 1024;

int64_t padded(int64_t value, int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

/// Rows of a product: how the weight of an output channel is laid out for the steps of k.
struct PackedRows {
  int64_t channels, k;
  bool taps_first;  ///< k = tap · channels + ic, else ic · taps + tap
};

/// Whether the weight is fp32 and the elements of a window, and then the windows of the input
/// channels, are neighbours.
bool is_dense(const NodeContext& c, const ConvShape& s) {
  const bool images = s.kernel[0] == Expr(1) || s.w_at[0] == s.kernel[1] * s.kernel[2];
  const bool windows =
      s.taps() == Expr(1) || (s.w_at[2] == Expr(1) && s.w_at[1] == s.kernel[2] && images);
  return c.dtype("weight") == DType::kF32 && windows && (s.ic == Expr(1) || s.w_ic == s.taps());
}

/// Whether the weight's own storage is laid out so.
bool is_packed(const NodeContext& c, const ConvShape& s, const PackedRows& rows) {
  const bool same_order = !rows.taps_first || s.taps() == Expr(1) || s.ic == Expr(1);
  return is_dense(c, s) && same_order && s.ic * s.taps() == Expr(rows.k) &&
         s.w_oc == Expr(rows.k) && (s.groups == Expr(1) || s.w_g == s.oc * rows.k);
}

/// The weight as PackedRows, in fp32: itself where it lies so.
ValueId pack_weight(const NodeContext& c, Builder& b, const ConvShape& s, const PackedRows& rows,
                    std::vector<Step>& steps) {
  if (is_packed(c, s, rows)) return s.w;
  const ValueId y = b.scratch("weight", DType::kF32, {s.groups * s.oc, rows.k});
  const SimdTile tile = simd_tile(c.device);
  constexpr int64_t kRuns = 16, kMostTransposed = 25;
  const int64_t ic = *s.ic.constant(), taps = *s.taps().constant();
  const bool whole = rows.k % tile.cols() == 0;
  const bool transposed = rows.taps_first && is_dense(c, s) && ic % tile.cols() == 0 &&
                          rows.channels % tile.cols() == 0 && taps <= kMostTransposed;
  const int64_t runs = transposed ? rows.channels / tile.cols()
                       : whole    ? (rows.k - 1) / (kRuns * tile.cols()) + 1
                                  : 1;
  Step step{.kernel = "conv_pack",
            .defines = {{"TAPS_FIRST", rows.taps_first ? "1" : "0"},
                        {"SMALL_PLANE", rows.k < kSmallPlane ? "1" : "0"},
                        {"TAPS", transposed ? text(taps) : "0"},
                        {"WHOLE", whole ? "1" : "0"},
                        {"RUNS", text(kRuns) + "u"}},
            .operands = {src("w", s.w), dst("y", y)},
            .params = {param("k_padded", Expr(rows.k)), param("channels", Expr(rows.channels)),
                       param("oc_count", s.oc), param("ic_count", s.ic), fixed("k_h", s.kernel[1]),
                       fixed("k_w", s.kernel[2])},
            .grid = {{Expr(runs), s.oc, s.groups}},
            .local_size = {static_cast<uint32_t>(tile.lanes), 1, 1},
            .uniform_table = true};
  if (!s.is_planar()) step.params.push_back(fixed("k_d", s.kernel[0]));
  add_weight(step, s);
  steps.push_back(std::move(step));
  return y;
}

/// The input as it is: one tap, no padding, planes dense.
bool is_direct(const NodeContext& c, const ConvShape& s, int64_t ic, int64_t tile) {
  for (size_t k = 0; k < 3; ++k) {
    if (s.stride[k] != 1 || !(s.pad[k] == Expr(0)) || s.lhs[k] != 1) return false;
  }
  const bool images = s.in[0] == Expr(1) || s.x_at[0] == s.in[1] * s.in[2];
  return ic % kSimdSegment == 0 && s.taps() == Expr(1) && c.dtype("input") == DType::kF32 &&
         s.x_at[2] == Expr(1) && s.x_at[1] == s.in[2] && images &&
         (s.groups == Expr(1) || s.x_n == s.x_c * s.ic * s.groups) &&
         s.pixels().bounds(c.graph.symbols).first >= tile;
}

/// What the SIMD kernels can't take, or "".
std::string common_refusal(const NodeContext& c, const ConvShape& s) {
  const std::string refusal = simd_refusal(c.device);
  if (!refusal.empty()) return refusal;
  if (!s.ic.constant() || !s.oc.constant() || !s.taps().constant() || !s.groups.constant()) {
    return "channels or the window are symbolic";
  }
  if (!(s.groups == Expr(1)) && !(s.n == Expr(1)) && !(s.x_n == s.x_c * s.ic * s.groups)) {
    return "images of several groups do not follow each other";
  }
  return "";
}

/// What is multiplied: the input as it is, its unfolded copy, or its padded copy.
enum class Input { kDirect, kUnfolded, kPadded };

/// Whether segments of k have a length that suits the channels, rather than 64 steps.
bool has_own_segments(const ConvShape& s) { return !s.is_planar() || !(s.groups == Expr(1)); }

/// Steps of a segment, which is a part of a tap's channels.
int64_t segment_of(const ConvShape& s) {
  if (!has_own_segments(s)) return kSimdSegment;
  const int64_t ic = *s.ic.constant(), parts = padded(ic, kSimdSegment) / kSimdSegment;
  return padded((ic + parts - 1) / parts, 4);
}

/// Moving an element takes as long as 350 products of whole vectors: unfolding moves one a tap,
/// padding one a phase of the stride.
Input choose_input(const NodeContext& c, const ConvShape& s, int64_t tile) {
  constexpr int64_t kMove = 350;
  const int64_t ic = *s.ic.constant(), oc = *s.oc.constant(), taps = *s.taps().constant();
  if (is_direct(c, s, ic, tile)) return Input::kDirect;
  if (taps == 1) return Input::kPadded;
  const int64_t channels = padded(ic, segment_of(s));
  int64_t pad = taps * channels * oc;
  if (has_own_segments(s)) {
    // The columns between rows and images, which are not outputs.
    const int64_t pixels = typical(c.graph, s.pixels());
    pad = pad / pixels * typical(c.graph, plane_of(s, tile).columns(s));
  }
  pad += channels * s.stride[0] * s.stride[1] * s.stride[2] * kMove;
  const int64_t unfold = padded(taps * ic, kSimdSegment) * (oc + kMove);
  return pad > unfold ? Input::kUnfolded : Input::kPadded;
}

/// Rows of a tile of which few stay empty.
int64_t tile_rows_of(const NodeContext& c, int64_t oc) {
  int64_t best = simd_tile(c.device).rows;
  for (int64_t rows = best - 1; rows >= 3; --rows) {
    if (padded(oc, rows) * 5 < padded(oc, best) * 4) best = rows;
  }
  return best;
}

void multiply_direct(const ConvShape& s, int64_t tile, int64_t k, SimdProduct& p) {
  p.b = s.x;
  p.b_k = s.x_c;
  p.b_z = s.groups == Expr(1) ? s.x_n : s.x_c * s.ic;
  p.b_last = s.pixels() - tile;
  p.col_tiles = ceil_div(s.pixels(), tile);
  for (int64_t at = 0; at < k; at += kSimdSegment) p.segments.push_back(s.x_c * at);
}

void multiply_unfolded(const NodeContext& c, Builder& b, const ConvShape& s, int64_t tile,
                       int64_t k, SimdProduct& p, std::vector<Step>& steps) {
  p.col_tiles = ceil_div(s.pixels(), tile);
  const Expr pitch = p.col_tiles * tile;
  p.b = b.scratch("unfolded", DType::kF32, {p.batch, Expr(k), pitch});
  const bool small = pitch.bounds(c.graph.symbols).second < kSmallPlane;
  Step step{.kernel = "conv_unfold",
            .defines = {{"SMALL_PLANE", small ? "1" : "0"}},
            .operands = {src("x", s.x), dst("y", p.b)},
            .grid = {{ceil_div(pitch, 128), Expr(k), p.batch}},
            .local_size = {64, 1, 1}};
  add_geometry(step, s);
  step.params.insert(step.params.end(), {param("x_z", s.groups == Expr(1) ? s.x_n : s.x_c * s.ic),
                                         param("pitch", pitch), param("k_count", s.taps() * s.ic)});
  steps.push_back(std::move(step));
  p.b_k = pitch;
  p.b_z = pitch * k;
  p.b_last = pitch - tile;
  for (int64_t at = 0; at < k; at += kSimdSegment) p.segments.push_back(pitch * at);
}

void multiply_padded(const NodeContext& c, Builder& b, const ConvShape& s, int64_t tile,
                     SimdProduct& p, SimdOutput& out, std::vector<Step>& steps) {
  const Plane plane = plane_of(s, tile);
  p.segment = segment_of(s);
  const int64_t channels = padded(*s.ic.constant(), p.segment);
  p.b = add_pad(c, b, s, plane, channels, steps);
  p.b_k = plane.plane;
  p.b_z = plane.plane * channels;
  p.col_tiles = ceil_div(plane.columns(s), tile);
  p.b_last = p.col_tiles * tile;
  p.place_strides = plane.place_strides();
  for (int64_t d = 0; d < *s.kernel[0].constant(); ++d) {
    for (int64_t h = 0; h < *s.kernel[1].constant(); ++h) {
      for (int64_t w = 0; w < *s.kernel[2].constant(); ++w) {
        for (int64_t at = 0; at < channels; at += p.segment) {
          p.places.push_back(plane.place(s, at, {d, h, w}));
        }
      }
    }
  }
  if (p.segment == kSimdSegment) {
    for (const SimdPlace& place : p.places) p.segments.push_back(p.offset(place));
    p.places.clear();
  }
  out.columns.width = s.out[2];
  out.columns.gap = plane.reach[2];
  if (!s.is_planar()) {
    out.columns.height = s.out[1];
    out.columns.depth_gap = plane.pitch * plane.reach[1];
  }
}

/// Makes `step`, a conv_depthwise_simd, one of tiles of rows, where these are of whole vectors and
/// windows are small: code is as long as the windows of a tile.
void use_row_tiles(const NodeContext& c, const ConvShape& s, const Plane& plane, Step& step) {
  constexpr int64_t kMostTaps = 49;
  const int64_t lanes = c.device.subgroup_size, taps = *s.taps().constant();
  const RowTiles tiles{.planes = s.n * s.groups * s.oc,
                       .lines = s.out[1],
                       .width = s.out[2],
                       .in_width = plane.pitch,
                       .rows_read = taps,
                       .reach = lanes - 1};
  const bool is_known = s.out[1].constant() && s.out[2].constant() && s.is_planar();
  const bool takes = is_known && *s.out[2].constant() >= 2 * lanes && taps <= kMostTaps &&
                     row_tiles_refusal(c, tiles).empty();
  step.defines.emplace_back("ROW_TILES", flag(takes));
  if (!takes) return;
  std::erase_if(step.params, [](const Param& p) { return p.name == "out_h" || p.name == "out_w"; });
  add_row_tiles(c, tiles, step);
}

}  // namespace

Tactic conv_simd_tactic(const NodeContext& c, Builder& b, const ConvShape& s) {
  Tactic tactic{.name = "conv_simd"};
  tactic.refusal = common_refusal(c, s);
  if (tactic.refusal.empty() && *(s.ic * s.taps()).constant() > kMostSegments * kSimdSegment) {
    tactic.refusal = "a window of very many elements";  // of an image, for a weight's gradient
  }
  if (!tactic.refusal.empty()) return tactic;

  const int64_t tile = simd_tile(c.device).cols();
  const int64_t ic = *s.ic.constant(), channels = padded(ic, segment_of(s));
  const Input input = choose_input(c, s, tile);
  const bool unfold = input == Input::kUnfolded;
  const int64_t taps = *s.taps().constant();
  const int64_t k = unfold ? padded(taps * ic, kSimdSegment) : taps * channels;

  SimdProduct p{.rows = s.oc, .batch = s.n * s.groups};
  p.a = pack_weight(c, b, s, {unfold ? ic : channels, k, !unfold}, tactic.steps);
  p.a_m = k;
  p.a_z = s.groups == Expr(1) ? Expr(0) : s.oc * k;
  if (!(s.groups == Expr(1))) {
    if (!(s.n == Expr(1))) p.a_count = *s.groups.constant();
    p.tile_rows = tile_rows_of(c, *s.oc.constant());
  }
  p.b_tile = tile;
  SimdOutput out{.rows = s.oc,
                 .batch = p.batch,
                 .columns = {.count = s.pixels(), .moved = input == Input::kDirect},
                 .bias = s.bias,
                 .groups = s.groups};
  switch (input) {
    case Input::kDirect:
      multiply_direct(s, tile, k, p);
      break;
    case Input::kUnfolded:
      multiply_unfolded(c, b, s, tile, k, p, tactic.steps);
      break;
    case Input::kPadded:
      multiply_padded(c, b, s, tile, p, out, tactic.steps);
      break;
  }
  const SimdSums sums = add_simd_product(c, b, p, tactic.steps);
  add_simd_finish(c, sums, out, tactic.steps);
  return tactic;
}

Tactic conv_depthwise_tactic(const NodeContext& c, Builder& b, const ConvShape& s) {
  Tactic tactic{.name = "conv_depthwise_simd"};
  tactic.refusal = common_refusal(c, s);
  if (tactic.refusal.empty() && !(s.ic == Expr(1) && !(s.groups == Expr(1)))) {
    tactic.refusal = "not depthwise";
  }
  if (tactic.refusal.empty() && *s.taps().constant() > 128) tactic.refusal = "more than 128 taps";
  if (!tactic.refusal.empty()) return tactic;

  const int64_t tile = simd_tile(c.device).cols(), taps = *s.taps().constant();
  const Plane plane = plane_of(s, tile);
  const ValueId w = pack_weight(c, b, s, {1, taps, true}, tactic.steps);
  const ValueId x = add_pad(c, b, s, plane, 1, tactic.steps);
  const Expr columns = plane.columns(s), channels = s.groups * s.oc;
  const bool small = columns.bounds(c.graph.symbols).second < kSmallPlane - tile;
  Step step{.kernel = "conv_depthwise_simd",
            .defines = {{"KD", s.kernel[0].str() + "u"},
                        {"KH", s.kernel[1].str()},
                        {"KW", s.kernel[2].str()},
                        {"STRIDE_H", text(s.stride[1]) + "u"},
                        {"STRIDE_W", text(s.stride[2]) + "u"},
                        {"SMALL_PLANE", small ? "1" : "0"},
                        {"BIAS", s.bias != kNoValue ? "1" : "0"}},
            .operands = {src("x", x), src("w", w), dst("y", c.node.outputs[0])},
            .params = {param("oc_count", channels), param("multiplier", s.oc),
                       param("plane", plane.plane), param("phase_size", plane.phase_size),
                       param("phases_w", Expr(plane.phases[2])), param("pitch", plane.pitch),
                       param("out_h", s.out[1]), param("out_w", s.out[2]),
                       fixed("dil_h", Expr(s.dilation[1])), fixed("dil_w", Expr(s.dilation[2]))},
            .grid = {{ceil_div(columns, tile), s.n * channels, 1}},
            .local_size = {static_cast<uint32_t>(tile / 2), 1, 1},
            .uniform_table = true};
  if (s.bias != kNoValue) step.operands.push_back(src("bias", s.bias));
  if (!s.is_planar()) {
    step.defines.emplace_back("DEPTH", "1");
    step.defines.emplace_back("STRIDE_D", text(s.stride[0]) + "u");
    step.params.insert(step.params.end(),
                       {param("phases_h", Expr(plane.phases[1])), param("slab", plane.slab),
                        param("out_d", s.out[0]), fixed("dil_d", Expr(s.dilation[0]))});
  }
  use_row_tiles(c, s, plane, step);
  tactic.steps.push_back(std::move(step));
  return tactic;
}

}  // namespace tv
