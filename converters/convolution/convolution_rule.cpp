// Which tile for which convolution on matrix units: the candidates, and the time that each
// should take.

#include <algorithm>

#include "converters/convolution/convolution_matrix.h"

namespace tv {

namespace {

const std::vector<ConvTile>& tiles_16() {
  // clang-format off: rows of a table
  static const std::vector<ConvTile> tiles = {
      {.tile = "16x16_w16x16x8"_tile, .ks = 4}, {.tile = "16x16_w16x16x16"_tile, .ks = 4},
      {.tile = "32x16_w32x16x8"_tile, .ks = 4}, {.tile = "16x16_w16x16x18"_tile, .ks = 4},
      {.tile = "16x32_w16x32x9"_tile, .ks = 4}, {.tile = "32x16_w32x16x16"_tile, .ks = 4},
      {.tile = "16x32_w16x32x4"_tile, .ks = 4}, {.tile = "16x32_w16x32x8"_tile, .ks = 4},
      {.tile = "16x32_w16x32x16"_tile, .ks = 2}, {.tile = "32x32_w32x32x4"_tile, .ks = 2},
      {.tile = "32x32_w32x32x4"_tile, .ks = 4}, {.tile = "32x32_w32x32x8"_tile, .ks = 4},
      {.tile = "32x64_w32x32x4"_tile, .ks = 2}, {.tile = "64x32_w32x32x2"_tile, .ks = 4},
      {.tile = "64x32_w32x32x4"_tile, .ks = 2}, {.tile = "64x64_w32x32"_tile, .ks = 2},
      {.tile = "64x64_w32x32x2"_tile, .ks = 2}, {.tile = "128x64_w64x32"_tile, .ks = 2},
      {.tile = "128x64_w64x32x2"_tile, .ks = 2}, {.tile = "128x128_w64x32"_tile, .ks = 2},
      {.tile = "256x64_w64x32"_tile, .ks = 2},
  };
  // clang-format on
  return tiles;
}

const std::vector<ConvTile>& tiles_32() {
  // clang-format off: rows of a table
  static const std::vector<ConvTile> tiles = {
      {.tile = "16x16_w16x16x8"_tile, .ks = 2}, {.tile = "16x16_w16x16x16"_tile, .ks = 1},
      {.tile = "16x16_w16x16x9"_tile, .ks = 2}, {.tile = "16x32_w16x32x9"_tile, .ks = 1},
      {.tile = "16x32_w16x32x4"_tile, .ks = 2}, {.tile = "16x32_w16x32x8"_tile, .ks = 1},
      {.tile = "32x16_w32x16x8"_tile, .ks = 2}, {.tile = "32x32_w32x32x4"_tile, .ks = 2},
      {.tile = "64x32_w32x32x2"_tile, .ks = 2}, {.tile = "64x32_w32x32x4"_tile, .ks = 1},
      {.tile = "64x64_w32x32"_tile, .ks = 1}, {.tile = "64x64_w32x32"_tile, .ks = 2},
      {.tile = "64x64_w32x32x2"_tile, .ks = 1}, {.tile = "128x64_w64x32"_tile, .ks = 2},
      {.tile = "128x64_w32x32"_tile, .ks = 2}, {.tile = "128x32_w32x32"_tile, .ks = 2},
  };
  // clang-format on
  return tiles;
}

/// Of fp32 in one float16 piece, and in two.
const std::vector<ConvTile>& tiles_one_piece() {
  // clang-format off: rows of a table
  static const std::vector<ConvTile> tiles = {
      {.tile = "16x16_w16x16x8"_tile, .ks = 4}, {.tile = "16x16_w16x16x16"_tile, .ks = 4},
      {.tile = "32x16_w32x16x8"_tile, .ks = 4}, {.tile = "32x16_w32x16x16"_tile, .ks = 4},
      {.tile = "16x32_w16x32x8"_tile, .ks = 4}, {.tile = "32x32_w32x32x4"_tile, .ks = 2},
      {.tile = "32x32_w32x32x4"_tile, .ks = 4}, {.tile = "32x32_w32x32x8"_tile, .ks = 4},
      {.tile = "64x32_w32x32x4"_tile, .ks = 2}, {.tile = "64x32_w32x32x2"_tile, .ks = 4},
      {.tile = "64x64_w32x32"_tile, .ks = 2}, {.tile = "64x64_w32x32x2"_tile, .ks = 2},
      {.tile = "128x64_w64x32"_tile, .ks = 2}, {.tile = "128x64_w64x32x2"_tile, .ks = 2},
      {.tile = "128x128_w64x32"_tile, .ks = 2},
  };
  // clang-format on
  return tiles;
}

const std::vector<ConvTile>& tiles_two_pieces() {
  // clang-format off: rows of a table
  static const std::vector<ConvTile> tiles = {
      {.tile = "16x16_w16x16x16"_tile, .ks = 2}, {.tile = "16x16_w16x16x8"_tile, .ks = 4},
      {.tile = "32x16_w32x16x8"_tile, .ks = 2}, {.tile = "32x16_w32x16x8"_tile, .ks = 4},
      {.tile = "32x16_w32x16x16"_tile, .ks = 2}, {.tile = "16x32_w16x32x4"_tile, .ks = 2},
      {.tile = "32x32_w32x32x4"_tile, .ks = 2}, {.tile = "32x32_w32x32x8"_tile, .ks = 2},
      {.tile = "64x32_w32x32x4"_tile, .ks = 1}, {.tile = "64x32_w32x32x2"_tile, .ks = 2},
      {.tile = "64x64_w32x32"_tile, .ks = 2}, {.tile = "64x64_w32x32x2"_tile, .ks = 1},
      {.tile = "128x64_w32x32"_tile, .ks = 2}, {.tile = "128x64_w64x32"_tile, .ks = 2},
      {.tile = "128x32_w32x32"_tile, .ks = 2},
  };
  // clang-format on
  return tiles;
}

// In clocks of an H200's compute unit, measured; other devices differ in the unit, hardly in the
// order.
constexpr double kClocksOfUs = 1700;
constexpr double kProduct = 4.5;                        // of two fragments
constexpr double kFragmentLoad = 4;                     // from shared memory or registers
constexpr double kGatherLast = 0.25, kGatherAny = 1.7;  // of a pixel's chunk: one load, or eight
constexpr double kStageWait = 800, kStepWait = 60;      // of a stage; of each step and piece in it

/// Clocks of one compute unit for one stage of one group of subgroups: loads, shared memory and
/// products, one after the other.
double stage_clocks(const ConvMatrixProblem& q, const ConvTile& t) {
  const MatrixTile& tile = t.tile;
  const SplitPrecision& precision = q.precision;
  const auto pieces = static_cast<double>(precision.pieces), ks = static_cast<double>(t.ks);
  const auto pixels = static_cast<double>(tile.bn) * ks;
  const double wide = precision.is_split() ? 2.0 : 1.0;  // bytes of an element, in units of 16 bits
  const double gather = pixels * (q.x_last ? kGatherLast * wide : kGatherAny);
  const double split = q.is_scaled()          ? (0.4 + 0.4 * pieces) * pixels
                       : precision.pieces > 1 ? 0.8 * pieces * pixels
                                              : 0.0;
  const double stores = 0.25 * pieces * pixels;
  const double subgroups =
      static_cast<double>(tile.output_threads()) / static_cast<double>(kInvocations);
  const double fragments = static_cast<double>(tile.wm + tile.wn) / static_cast<double>(kFragment) *
                           kFragmentLoad * subgroups * pieces * ks;
  const double products = static_cast<double>(tile.bm * tile.bn) /
                          static_cast<double>(kFragment * kFragment) * kProduct * ks *
                          static_cast<double>(precision.products());
  return gather + split + stores + fragments + products;
}

/// Workgroups that a compute unit holds at once, as registers and shared memory of an H200 allow.
int64_t resident(const ConvMatrixProblem& q, const ConvTile& t) {
  constexpr int64_t kRegisters = 65536, kOfInvocation = 255, kSharedBytes = 200000;
  const int64_t chunks =
      t.tile.bn * t.ks * 2 / t.tile.output_threads();  // that an invocation gathers
  const int64_t registers = std::min<int64_t>(
      kOfInvocation,
      56 + t.tile.sums() + 8 * t.ks * q.precision.pieces * (t.tile.wm / kFragment) + chunks * 10);
  return std::max<int64_t>(
      1, std::min(kRegisters / (registers * t.tile.threads()), kSharedBytes / q.shared_bytes(t)));
}

}  // namespace

const std::vector<ConvTile>& conv_tiles(const SplitPrecision& precision) {
  if (!precision.is_split()) return tiles_16();
  if (precision.scale == SplitPrecision::kUnscaled) return tiles_32();
  return precision.pieces == 1 ? tiles_one_piece() : tiles_two_pieces();
}

// Workgroups share compute units, of which each does one thing at a time, and a stage takes at
// least the time of a load.
double expected_us(const ConvMatrixProblem& q, const ConvTile& t) {
  const MatrixTile& tile = t.tile;
  const Graph& graph = q.c.graph;
  const int64_t units = compute_units(q.c.device);
  const int64_t groups = div_up(typical(graph, q.columns), tile.bn) * div_up(q.oc, tile.bm) *
                         typical(graph, q.s.groups);
  const int64_t at_once = std::min(resident(q, t), div_up(groups, units));
  const auto rounds = static_cast<double>(div_up(groups, units * at_once));
  const auto stages = static_cast<double>(q.share(t));
  const double chain =
      stages * (kStageWait + kStepWait * static_cast<double>(t.ks * q.precision.pieces));
  const double work = static_cast<double>(at_once * tile.wk) * stages * stage_clocks(q, t);
  const double stores = 300.0 + 500.0 * static_cast<double>(tile.wm) / 16.0 +
                        static_cast<double>(tile.wk * tile.bm * tile.bn) / 32.0;
  return rounds * (overlapped(work, chain) + stores) / kClocksOfUs;
}

}  // namespace tv
