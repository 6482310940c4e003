// Which tile for which product on matrix units: the candidates, and the time that each
// should take.

#include <algorithm>
#include <cmath>

#include "converters/matmul/matrix_units/matmul_coopmat.h"

namespace tv {

namespace {

using enum ProductTile::Family;

const std::vector<ProductTile>& tiles_16() {
  // clang-format off: rows of a table
  static const std::vector<ProductTile> tiles = {
      {.family = kShared, .tile = "64x256_w64x64"_tile, .bk = 128, .ring = 2},
      {.family = kShared, .tile = "64x256_w64x64"_tile, .bk = 64, .ring = 1, .resident = 2},
      {.family = kShared, .tile = "64x128_w64x32"_tile, .bk = 64, .ring = 2, .resident = 2},
      {.family = kShared, .tile = "64x128_w64x32"_tile, .bk = 64, .ring = 2, .resident = 2,
       .group = 2},
      {.family = kShared, .tile = "64x64_w32x32"_tile, .bk = 64, .ring = 2, .resident = 3},
      {.family = kShared, .tile = "128x128_w64x64"_tile, .bk = 32, .ahead = true},
      {.family = kShared, .tile = "128x64_w64x32"_tile, .bk = 32, .ahead = true, .resident = 2},
      {.family = kShared, .tile = "64x64_w32x32"_tile, .bk = 32, .ahead = true, .resident = 3},
      {.family = kShared, .tile = "32x64_w32x32x2"_tile, .bk = 64, .resident = 3},
      {.family = kShared, .tile = "32x32_w32x32x4"_tile, .bk = 128, .resident = 2},
      {.family = kDirect, .tile = "64x128_w32x64x2"_tile},
      {.family = kDirect, .tile = "64x96_w32x96x2"_tile, .resident = 2},
      {.family = kDirect, .tile = "64x96_w32x48"_tile, .resident = 4},
      {.family = kDirect, .tile = "64x64_w32x64x2"_tile, .resident = 3},
      {.family = kDirect, .tile = "64x48_w32x48x2"_tile, .resident = 4},
      {.family = kDirect, .tile = "64x48_w32x48x3"_tile, .resident = 2},
      {.family = kDirect, .tile = "64x48_w32x48x3"_tile, .resident = 2, .unroll = 8},
      {.family = kDirect, .tile = "32x48_w32x48x3"_tile, .resident = 4},
      {.family = kDirect, .tile = "32x48_w32x48x3"_tile, .resident = 4, .unroll = 8},
      {.family = kDirect, .tile = "32x48_w32x48x4"_tile, .resident = 2, .unroll = 6},
      {.family = kDirect, .tile = "32x48_w32x48x4"_tile, .resident = 2},
      {.family = kDirect, .tile = "32x48_w32x48x8"_tile},
      {.family = kDirect, .tile = "16x48_w16x48x4"_tile, .resident = 4},
      {.family = kDirect, .tile = "16x48_w16x48x8"_tile, .resident = 2},
      {.family = kDirect, .tile = "16x16_w16x16x8"_tile, .resident = 4},
      {.family = kRows, .tile = "64x64_w32x32x2"_tile, .resident = 2},
      {.family = kRows, .tile = "64x32_w32x32x2"_tile, .resident = 3},
      {.family = kRows, .tile = "64x64_w32x64x2"_tile, .resident = 2},
      {.family = kRows, .tile = "32x64_w32x64x4"_tile, .resident = 2},
      {.family = kRows, .tile = "32x48_w32x48x4"_tile, .resident = 3},
      {.family = kRows, .tile = "32x32_w32x32x4"_tile, .resident = 3},
      {.family = kRows, .tile = "16x32_w16x32x8"_tile, .resident = 2},
      {.family = kRows, .tile = "16x16_w16x16x8"_tile, .resident = 3},
      {.family = kRows, .tile = "16x16_w16x16x16"_tile, .resident = 2},
      {.family = kRows, .tile = "32x48_w32x48x8"_tile, .resident = 2},
      {.family = kPacked, .tile = "64x128_w32x32x2"_tile},
      {.family = kPacked, .tile = "32x48_w32x48x4"_tile, .resident = 3},
      {.family = kPacked, .tile = "16x16_w16x16x8"_tile, .resident = 3},
  };
  // clang-format on
  return tiles;
}

const std::vector<ProductTile>& tiles_32() {
  // clang-format off: rows of a table
  static const std::vector<ProductTile> tiles = {
      {.family = kShared, .tile = "64x256_w64x64"_tile, .bk = 16, .ring = 1},
      {.family = kShared, .tile = "64x256_w64x32"_tile, .bk = 32, .ring = 2},
      {.family = kShared, .tile = "64x128_w64x32"_tile, .bk = 32, .ring = 2, .resident = 2},
      {.family = kShared, .tile = "64x128_w64x32"_tile, .bk = 32, .ring = 2, .resident = 2,
       .stages = 1},
      {.family = kShared, .tile = "64x64_w32x32"_tile, .bk = 32, .ring = 2, .resident = 3},
      {.family = kShared, .tile = "64x128_w32x32"_tile, .bk = 32},
      {.family = kShared, .tile = "64x128_w32x64"_tile, .bk = 16},
      {.family = kShared, .tile = "64x64_w32x32"_tile, .bk = 32, .resident = 2},
      {.family = kShared, .tile = "64x64_w32x32"_tile, .bk = 16, .resident = 2},
      {.family = kDirect, .tile = "64x64_w32x32x2"_tile, .resident = 2},
      {.family = kDirect, .tile = "64x32_w32x32x2"_tile, .resident = 2},
      {.family = kDirect, .tile = "32x48_w32x48x4"_tile, .resident = 2},
      {.family = kDirect, .tile = "32x32_w32x32x4"_tile, .resident = 2},
      {.family = kDirect, .tile = "16x48_w16x48x8"_tile, .resident = 2},
      {.family = kDirect, .tile = "16x32_w16x32x8"_tile, .resident = 2},
      {.family = kDirect, .tile = "16x16_w16x16x8"_tile, .resident = 2},
      {.family = kRows, .tile = "64x64_w32x32x2"_tile, .resident = 2},
      {.family = kRows, .tile = "64x32_w32x32x2"_tile, .resident = 2},
      {.family = kRows, .tile = "32x32_w32x32x4"_tile, .resident = 2},
      {.family = kRows, .tile = "16x32_w16x32x8"_tile, .resident = 2},
      {.family = kRows, .tile = "16x16_w16x16x8"_tile, .resident = 2},
      {.family = kPacked, .tile = "128x64_w32x64"_tile},
      {.family = kPacked, .tile = "32x32_w32x32x4"_tile, .resident = 2},
  };
  // clang-format on
  return tiles;
}

const std::vector<ProductTile>& tiles_scaled() {
  // clang-format off: rows of a table
  static const std::vector<ProductTile> tiles = {
      {.family = kShared, .tile = "64x256_w64x32"_tile, .bk = 32, .ring = 2},
      {.family = kShared, .tile = "64x128_w64x32"_tile, .bk = 32, .ring = 2, .resident = 2},
      {.family = kShared, .tile = "64x256_w64x32"_tile, .bk = 32, .ring = 2, .stages = 1},
      {.family = kShared, .tile = "64x128_w64x32"_tile, .bk = 32, .ring = 2, .resident = 2,
       .stages = 1},
      {.family = kShared, .tile = "64x128_w64x32"_tile, .bk = 32, .ring = 1, .resident = 2,
       .stages = 1},
      {.family = kShared, .tile = "128x128_w64x32"_tile, .bk = 32, .stages = 1},
      {.family = kShared, .tile = "64x128_w64x32"_tile, .bk = 32, .stages = 1},
  };
  // clang-format on
  return tiles;
}

const std::vector<ProductTile>& tiles_rounded() {
  // clang-format off: rows of a table
  static const std::vector<ProductTile> tiles = {
      {.family = kShared, .tile = "64x256_w64x32"_tile, .bk = 64, .ring = 2},
      {.family = kShared, .tile = "64x256_w64x64"_tile, .bk = 64, .ring = 1},
      {.family = kShared, .tile = "64x128_w64x32"_tile, .bk = 64, .ring = 2, .resident = 2},
      {.family = kShared, .tile = "64x128_w64x32"_tile, .bk = 32, .ring = 2, .resident = 2},
      {.family = kShared, .tile = "64x64_w32x32"_tile, .bk = 64, .ring = 2, .resident = 3},
      {.family = kShared, .tile = "128x128_w64x32"_tile, .bk = 32},
      {.family = kShared, .tile = "64x64_w32x32"_tile, .bk = 32, .resident = 2},
  };
  // clang-format on
  return tiles;
}

const std::vector<ProductTile>& tiles_quantised() {
  // clang-format off: rows of a table
  static const std::vector<ProductTile> tiles = {
      {.family = kShared, .tile = "16x32_w16x32x4"_tile, .bk = 128, .resident = 4, .slots = 2},
      {.family = kShared, .tile = "16x64_w16x64x4"_tile, .bk = 128, .resident = 3, .slots = 2},
      {.family = kShared, .tile = "32x32_w32x32x4"_tile, .bk = 128, .resident = 3, .slots = 2},
      {.family = kShared, .tile = "32x64_w32x32x2"_tile, .bk = 64, .resident = 3, .slots = 2},
      {.family = kShared, .tile = "64x64_w32x32"_tile, .bk = 64, .resident = 3, .slots = 2},
      {.family = kShared, .tile = "64x128_w32x64"_tile, .bk = 32, .resident = 2, .slots = 2},
      {.family = kShared, .tile = "64x64_w32x32"_tile, .bk = 32, .ahead = true, .resident = 3},
      {.family = kShared, .tile = "128x64_w64x32"_tile, .bk = 32, .ahead = true, .resident = 2},
      {.family = kShared, .tile = "128x128_w64x64"_tile, .bk = 32, .ahead = true},
      {.family = kShared, .tile = "128x128_w64x32"_tile, .bk = 32, .ahead = true},
  };
  // clang-format on
  return tiles;
}

const std::vector<ProductTile>& tiles_bytes() {
  // clang-format off: rows of a table
  static const std::vector<ProductTile> tiles = {
      {.family = kShared, .tile = "128x128_w64x64"_tile, .bk = 32, .ahead = true},
      {.family = kShared, .tile = "128x128_w64x32"_tile, .bk = 32, .ahead = true},
      {.family = kShared, .tile = "128x64_w64x32"_tile, .bk = 32, .ahead = true, .resident = 2},
      {.family = kShared, .tile = "64x64_w32x32"_tile, .bk = 64, .resident = 3},
      {.family = kShared, .tile = "64x64_w32x32"_tile, .bk = 32, .ahead = true, .resident = 3},
      {.family = kShared, .tile = "32x64_w32x32x2"_tile, .bk = 64, .resident = 3},
      {.family = kShared, .tile = "32x32_w32x32x4"_tile, .bk = 128, .resident = 2},
      {.family = kShared, .tile = "16x32_w16x32x4"_tile, .bk = 128, .resident = 4},
      {.family = kShared, .tile = "16x64_w16x64x4"_tile, .bk = 128, .resident = 3},
  };
  // clang-format on
  return tiles;
}

const std::vector<ProductTile>& tiles_quantised_32() {
  // clang-format off: rows of a table
  static const std::vector<ProductTile> tiles = {
      {.family = kShared, .tile = "16x32_w16x32x4"_tile, .bk = 64, .resident = 3},
      {.family = kShared, .tile = "32x64_w32x32x2"_tile, .bk = 32, .resident = 2},
      {.family = kShared, .tile = "64x64_w32x32"_tile, .bk = 32, .resident = 2},
      {.family = kShared, .tile = "64x128_w32x32"_tile, .bk = 32},
      {.family = kShared, .tile = "64x128_w32x64"_tile, .bk = 16},
  };
  // clang-format on
  return tiles;
}

// A model of nanoseconds on an H200, whose numbers these are: measured, or fitted to what the tuner
// found. Other devices differ in the unit, hardly in the order.
constexpr double kProduct = 1.74;   // of one compute unit for a product of two fragments
constexpr double kDispatch = 2200;  // of a launch more
constexpr double kFirstStep = 800;  // until the first step of k is loaded
constexpr double kStepShared = 75, kStepDirect = 60;  // that no other work hides, of a step of k
constexpr double kShare = 20;  // of the subgroups that share k, each, when they add up
constexpr double kSplitSums = 5000, kSplitSumsOfPieces = 10000;              // of split-K's launch
constexpr double kPackedPerNs = 600, kScaledPerNs = 500, kSplitPerNs = 250;  // elements

double work_ns(const MatrixProblem& q, const ProductTile& t, int64_t per_compute_unit,
               double steps) {
  const MatrixTile& tile = t.tile;
  const auto reuse = [](int64_t m, int64_t n) {
    return static_cast<double>(m * n) / static_cast<double>(m + n);
  };
  const auto pieces = static_cast<double>(q.precision.pieces);
  const double products = static_cast<double>(tile.bm * tile.bn * tile.wk) /
                          static_cast<double>(kFragment * kFragment) * steps * pieces *
                          (pieces + 1) / 2;
  // What loads add: those of a subgroup from shared memory or the first cache, those of a workgroup
  // from the second; pieces are multiplied more often than loaded.
  double feed =
      0.9 + (8.0 / reuse(tile.wm, tile.wn) + 22.0 / reuse(tile.bm, tile.bn)) * 2.0 / (pieces + 1);
  if (t.family == kShared && t.ring == 0) feed += 0.45;
  if (t.family == kRows) feed += 0.6;
  // So many registers of sums leave few for rows on their way.
  if (t.family == kRows && tile.sums() >= 128) feed += 0.4;
  if (q.precision.promote > 0) feed += 0.15;
  // Small tiles need more subgroups at once to keep the unit busy.
  const double busy =
      static_cast<double>(std::min(per_compute_unit, t.resident) * tile.subgroups()) *
      std::sqrt(static_cast<double>(tile.wm * tile.wn)) / 200.0;
  return static_cast<double>(per_compute_unit) * products * kProduct * feed / std::min(1.0, busy);
}

/// Of one workgroup after the other: loads that wait for what was loaded before.
double chain_ns(const ProductTile& t, int64_t per_compute_unit, double steps) {
  const double chain = kFirstStep + steps * (t.family == kShared ? kStepShared : kStepDirect) +
                       static_cast<double>(t.tile.wk) * kShare;
  return t.family == kDirect ? chain * static_cast<double>(div_up(per_compute_unit, t.resident))
                             : chain;
}

/// Of packed weights, of which a workgroup has its tiles of k on their way and waits for each.
double load_ns(const MatrixProblem& q, const ProductTile& t, int64_t per_compute_unit) {
  constexpr double kLatency = 800;
  constexpr int64_t kFewRows = 64;  // more of them keep the units busy meanwhile
  if (q.quantised == nullptr || t.ring > 0 || q.m > kFewRows) return 0;
  return static_cast<double>(div_up(per_compute_unit, t.resident) *
                             div_up(q.k, t.bk * t.slots * t.split)) *
         kLatency;
}

/// Of the launches besides the product's.
double extra_ns(const MatrixProblem& q, const ProductTile& t) {
  double extra = 0;
  const auto launch = [&](int64_t elements, double per_ns) {
    extra += kDispatch + static_cast<double>(elements * std::max<int64_t>(q.z, 1)) / per_ns;
  };
  const bool at_each_call = q.quantised != nullptr || !q.b.is_constant(q.w);
  if (t.packs_b() && at_each_call) launch(q.n * q.k, kPackedPerNs);
  if (t.family == kPacked && !q.b.is_constant(q.a)) launch(q.m * q.k, kPackedPerNs);
  if (t.split > 1) {
    // The sums of all shares are written, and read by a launch of their own. Measured, it takes
    // longer than launches do otherwise, and subgroups that share k within a workgroup gain most of
    // the same.
    launch(q.m * q.n * t.split, kSplitPerNs);
    extra += q.precision.pieces > 1 ? kSplitSumsOfPieces : kSplitSums;
  }
  if (q.is_scaled()) {
    if (!q.b.is_constant(q.w)) launch(q.n * q.k, kScaledPerNs);
    if (!q.b.is_constant(q.a)) launch(q.m * q.k, kScaledPerNs);
    extra += kDispatch;  // the fallback's
  }
  return extra;
}

}  // namespace

const std::vector<ProductTile>& product_tiles(const SplitPrecision& precision) {
  if (precision.input == DType::kI8) return tiles_bytes();
  const bool several = precision.pieces > 1;
  if (precision.scale == SplitPrecision::kGroups) return several ? tiles_scaled() : tiles_rounded();
  return several ? tiles_32() : tiles_16();
}

const std::vector<ProductTile>& quantised_tiles(const SplitPrecision& precision) {
  return precision.pieces > 1 ? tiles_quantised_32() : tiles_quantised();
}

namespace {

/// Workgroups that share the steps of k of a tile of packed weights, so that each compute unit has
/// as many as it holds: the more bytes are on their way.
int64_t filling_split(const MatrixProblem& q, const ProductTile& t) {
  constexpr int64_t kMost = 16;
  const int64_t tiles = div_up(q.m, t.tile.bm) * div_up(q.n, t.tile.bn);
  const int64_t room = compute_units(q.c.device) * t.resident;
  int64_t split = 1;
  while (split * 2 <= kMost && split * 2 * tiles <= room && q.k >= 4 * t.bk * split) split *= 2;
  return split;
}

}  // namespace

double expected_ns(const MatrixProblem& q, const ProductTile& t) {
  const int64_t groups =
      div_up(q.m, t.tile.bm) * div_up(q.n, t.tile.bn) * std::max<int64_t>(q.z, 1) * t.split;
  const int64_t per_compute_unit = div_up(groups, compute_units(q.c.device));
  const auto steps = static_cast<double>(div_up(div_up(q.k, kFragment), t.tile.wk * t.split));
  const double work =
      std::max(work_ns(q, t, per_compute_unit, steps), load_ns(q, t, per_compute_unit));
  return overlapped(work, chain_ns(t, per_compute_unit, steps)) + extra_ns(q, t);
}

ProductTile with_split_k(const MatrixProblem& q, ProductTile t) {
  constexpr int64_t kFewestSteps = 3;  // of 16 that a subgroup keeps
  if (q.quantised != nullptr) {
    if (t.ring == 0) t.split = filling_split(q, t);
    return t;
  }
  if (t.family == kShared || q.is_scaled()) return t;
  t.split = split_k_of(q.c, q.p, t.tile.bm, t.tile.bn);
  while (t.split > 1 && q.k < kFewestSteps * kFragment * t.tile.wk * t.split) t.split /= 2;
  return t;
}

int64_t strip_of(const MatrixTile& tile, int64_t max_shared_bytes) {
  const int64_t most = tile.wm / kFragment;
  int64_t strip = most;
  while (strip > 1 && (tile.sum_uvec4s(strip * kFragment) * kUvec4Bytes > max_shared_bytes ||
                       most % strip != 0)) {
    --strip;
  }
  return strip;
}

}  // namespace tv
