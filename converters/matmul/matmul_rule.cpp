// Which tile for which product: the shapes that are offered, and the time that each should take.

#include <algorithm>
#include <cmath>

#include "converters/matmul/matmul_coopmat.h"

namespace tv {

namespace {

using F = MatrixTile;

const std::vector<MatrixTile>& tiles_16() {
  static const std::vector<MatrixTile> tiles = {
      {F::kShared, 64, 256, 128, 64, 64, 1, 2, false, 1},
      {F::kShared, 64, 256, 64, 64, 64, 1, 1, false, 2},
      {F::kShared, 64, 128, 64, 64, 32, 1, 2, false, 2},
      {F::kShared, 64, 128, 64, 64, 32, 1, 2, false, 2, 2, 1, 2},
      {F::kShared, 64, 64, 64, 32, 32, 1, 2, false, 3},
      {F::kShared, 128, 128, 32, 64, 64, 1, 0, true, 1},
      {F::kShared, 128, 64, 32, 64, 32, 1, 0, true, 2},
      {F::kShared, 64, 64, 32, 32, 32, 1, 0, true, 3},
      {F::kShared, 32, 64, 64, 32, 32, 2, 0, false, 3},
      {F::kShared, 32, 32, 128, 32, 32, 4, 0, false, 2},
      {F::kDirect, 64, 128, 0, 32, 64, 2, 0, false, 1},
      {F::kDirect, 64, 96, 0, 32, 96, 2, 0, false, 2},
      {F::kDirect, 64, 96, 0, 32, 48, 1, 0, false, 4},
      {F::kDirect, 64, 64, 0, 32, 64, 2, 0, false, 3},
      {F::kDirect, 64, 48, 0, 32, 48, 2, 0, false, 4},
      {F::kDirect, 64, 48, 0, 32, 48, 3, 0, false, 2},
      {F::kDirect, 64, 48, 0, 32, 48, 3, 0, false, 2, 2, 1, 8, 8},
      {F::kDirect, 32, 48, 0, 32, 48, 3, 0, false, 4},
      {F::kDirect, 32, 48, 0, 32, 48, 3, 0, false, 4, 2, 1, 8, 8},
      {F::kDirect, 32, 48, 0, 32, 48, 4, 0, false, 2, 2, 1, 8, 6},
      {F::kDirect, 32, 48, 0, 32, 48, 4, 0, false, 2},
      {F::kDirect, 32, 48, 0, 32, 48, 8, 0, false, 1},
      {F::kDirect, 16, 48, 0, 16, 48, 4, 0, false, 4},
      {F::kDirect, 16, 48, 0, 16, 48, 8, 0, false, 2},
      {F::kDirect, 16, 16, 0, 16, 16, 8, 0, false, 4},
      {F::kRows, 64, 64, 0, 32, 32, 2, 0, false, 2},
      {F::kRows, 64, 32, 0, 32, 32, 2, 0, false, 3},
      {F::kRows, 64, 64, 0, 32, 64, 2, 0, false, 2},
      {F::kRows, 32, 64, 0, 32, 64, 4, 0, false, 2},
      {F::kRows, 32, 48, 0, 32, 48, 4, 0, false, 3},
      {F::kRows, 32, 32, 0, 32, 32, 4, 0, false, 3},
      {F::kRows, 16, 32, 0, 16, 32, 8, 0, false, 2},
      {F::kRows, 16, 16, 0, 16, 16, 8, 0, false, 3},
      {F::kRows, 16, 16, 0, 16, 16, 16, 0, false, 2},
      {F::kRows, 32, 48, 0, 32, 48, 8, 0, false, 2},
      {F::kPacked, 64, 128, 0, 32, 32, 2, 0, false, 1},
      {F::kPacked, 32, 48, 0, 32, 48, 4, 0, false, 3},
      {F::kPacked, 16, 16, 0, 16, 16, 8, 0, false, 3},
  };
  return tiles;
}

const std::vector<MatrixTile>& tiles_32() {
  static const std::vector<MatrixTile> tiles = {
      {F::kShared, 64, 256, 16, 64, 64, 1, 1, false, 1},
      {F::kShared, 64, 256, 32, 64, 32, 1, 2, false, 1},
      {F::kShared, 64, 128, 32, 64, 32, 1, 2, false, 2},
      {F::kShared, 64, 128, 32, 64, 32, 1, 2, false, 2, 1},
      {F::kShared, 64, 64, 32, 32, 32, 1, 2, false, 3},
      {F::kShared, 64, 128, 32, 32, 32, 1, 0, false, 1},
      {F::kShared, 64, 128, 16, 32, 64, 1, 0, false, 1},
      {F::kShared, 64, 64, 32, 32, 32, 1, 0, false, 2},
      {F::kShared, 64, 64, 16, 32, 32, 1, 0, false, 2},
      {F::kDirect, 64, 64, 0, 32, 32, 2, 0, false, 2},
      {F::kDirect, 64, 32, 0, 32, 32, 2, 0, false, 2},
      {F::kDirect, 32, 48, 0, 32, 48, 4, 0, false, 2},
      {F::kDirect, 32, 32, 0, 32, 32, 4, 0, false, 2},
      {F::kDirect, 16, 48, 0, 16, 48, 8, 0, false, 2},
      {F::kDirect, 16, 32, 0, 16, 32, 8, 0, false, 2},
      {F::kDirect, 16, 16, 0, 16, 16, 8, 0, false, 2},
      {F::kRows, 64, 64, 0, 32, 32, 2, 0, false, 2},
      {F::kRows, 64, 32, 0, 32, 32, 2, 0, false, 2},
      {F::kRows, 32, 32, 0, 32, 32, 4, 0, false, 2},
      {F::kRows, 16, 32, 0, 16, 32, 8, 0, false, 2},
      {F::kRows, 16, 16, 0, 16, 16, 8, 0, false, 2},
      {F::kPacked, 128, 64, 0, 32, 64, 1, 0, false, 1},
      {F::kPacked, 32, 32, 0, 32, 32, 4, 0, false, 2},
  };
  return tiles;
}

const std::vector<MatrixTile>& tiles_scaled() {
  static const std::vector<MatrixTile> tiles = {
      {F::kShared, 64, 256, 32, 64, 32, 1, 2, false, 1},
      {F::kShared, 64, 128, 32, 64, 32, 1, 2, false, 2},
      {F::kShared, 64, 256, 32, 64, 32, 1, 2, false, 1, 1},
      {F::kShared, 64, 128, 32, 64, 32, 1, 2, false, 2, 1},
      {F::kShared, 64, 128, 32, 64, 32, 1, 1, false, 2, 1},
      {F::kShared, 128, 128, 32, 64, 32, 1, 0, false, 1, 1},
      {F::kShared, 64, 128, 32, 64, 32, 1, 0, false, 1, 1},
  };
  return tiles;
}

const std::vector<MatrixTile>& tiles_rounded() {
  static const std::vector<MatrixTile> tiles = {
      {F::kShared, 64, 256, 64, 64, 32, 1, 2, false, 1},
      {F::kShared, 64, 256, 64, 64, 64, 1, 1, false, 1},
      {F::kShared, 64, 128, 64, 64, 32, 1, 2, false, 2},
      {F::kShared, 64, 128, 32, 64, 32, 1, 2, false, 2},
      {F::kShared, 64, 64, 64, 32, 32, 1, 2, false, 3},
      {F::kShared, 128, 128, 32, 64, 32, 1, 0, false, 1},
      {F::kShared, 64, 64, 32, 32, 32, 1, 0, false, 2},
  };
  return tiles;
}

}  // namespace

const std::vector<MatrixTile>& matrix_tiles(const SplitPrecision& pieces) {
  if (pieces.scaled) return pieces.count > 1 ? tiles_scaled() : tiles_rounded();
  return pieces.count > 1 ? tiles_32() : tiles_16();
}

// A model of nanoseconds on a device of which one compute unit multiplies 16x16x16 matrices in 1.74
// (measured on an H200); other devices differ in the unit, hardly in the order.
double expected_time(const MatrixProblem& q, const MatrixTile& t) {
  constexpr double kProduct = 1.74, kDispatch = 2200;
  const auto up = [](int64_t a, int64_t b) { return (a + b - 1) / b; };
  const auto reuse = [](int64_t m, int64_t n) {
    return static_cast<double>(m * n) / static_cast<double>(m + n);
  };
  const int64_t units = q.c.device.compute_units > 0 ? q.c.device.compute_units : 64;
  const int64_t groups = up(q.m, t.bm) * up(q.n, t.bn) * std::max<int64_t>(q.z, 1) * t.split;
  const int64_t on_unit = up(groups, units);
  const auto pieces = static_cast<double>(q.pieces.count);
  const double steps = static_cast<double>(up(up(q.k, kFragment), t.wk * t.split));
  const double products = static_cast<double>(t.bm * t.bn * t.wk) / 256.0 * steps * pieces *
                          (pieces + 1) / 2;
  // What loads add: those of a subgroup from shared memory or the first cache, those of a workgroup
  // from the second; pieces are multiplied more often than loaded.
  double feed = 0.9 + (8.0 / reuse(t.wm, t.wn) + 22.0 / reuse(t.bm, t.bn)) * 2.0 / (pieces + 1);
  if (t.family == MatrixTile::kShared && t.ring == 0) feed += 0.45;
  if (t.family == MatrixTile::kRows) feed += 0.6;
  // 128 registers of sums leave few for rows on their way.
  if (t.family == MatrixTile::kRows && t.wm * t.wn >= 4096) feed += 0.4;
  if (q.pieces.promote > 0) feed += 0.15;
  // Small tiles need more subgroups at once to keep the unit busy.
  const double busy = static_cast<double>(std::min(on_unit, t.per_unit) * t.warps()) *
                      std::sqrt(static_cast<double>(t.wm * t.wn)) / 200.0;
  const double work = static_cast<double>(on_unit) * products * kProduct * feed / std::min(1.0, busy);
  double chain = 800 + steps * (t.family == MatrixTile::kShared ? 75 : 60) +
                 static_cast<double>(t.wk) * 20;
  if (t.family == MatrixTile::kDirect) chain *= static_cast<double>(up(on_unit, t.per_unit));
  double extra = 0;
  const auto made = [&](int64_t elements, double per_us) {
    extra += kDispatch + static_cast<double>(elements * std::max<int64_t>(q.z, 1)) / per_us;
  };
  if (t.packs_b() && !q.b.is_constant(q.w)) made(q.n * q.k, 600);
  if (t.family == MatrixTile::kPacked && !q.b.is_constant(q.a)) made(q.m * q.k, 600);
  // The sums of all shares are written, and read by a launch of their own. Measured, it takes longer
  // than launches do otherwise, and subgroups that share k within a workgroup gain most of the same.
  if (t.split > 1) made(q.m * q.n * t.split, 250);
  if (t.split > 1) extra += q.pieces.count > 1 ? 10000 : 5000;
  if (q.pieces.scaled) {
    if (!q.b.is_constant(q.w)) made(q.n * q.k, 500);
    if (!q.b.is_constant(q.a)) made(q.m * q.k, 500);
    extra += kDispatch;  // what is left over
  }
  return std::max(work, chain) + 0.3 * std::min(work, chain) + extra;
}

MatrixTile with_split_k(const MatrixProblem& q, MatrixTile t) {
  if (t.family == MatrixTile::kShared || q.pieces.scaled) return t;
  t.split = split_k_of(q.c, q.p, t.bm, t.bn);
  // Each subgroup keeps a few steps of its own.
  while (t.split > 1 && q.k < 3 * kFragment * t.wk * t.split) t.split /= 2;
  return t;
}

int64_t strip_of(const MatrixTile& t, int64_t max_shared_bytes) {
  int64_t strip = t.wm / kFragment;
  const int64_t bytes = t.wk * (t.bm / t.wm) * kFragment * (t.bn / 4 + 1) * 16;  // of one row each
  while (strip > 1 && (strip * bytes > max_shared_bytes || t.wm / kFragment % strip != 0)) --strip;
  return strip;
}

}  // namespace tv
