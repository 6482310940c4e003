// Which tile for which product: the shapes that are offered, and the time that each should take.

#include <algorithm>

#include "converters/matmul_units.h"

namespace tv {

namespace {

using F = MatrixTile;

const std::vector<MatrixTile>& tiles_16() {
  static const std::vector<MatrixTile> tiles = {
      {F::kShared, 64, 256, 128, 64, 64, 1, 2, false, 1},
      {F::kShared, 64, 256, 64, 64, 64, 1, 1, false, 2},
      {F::kShared, 64, 128, 64, 64, 32, 1, 2, false, 2},
      {F::kShared, 64, 64, 64, 32, 32, 1, 2, false, 3},
      {F::kShared, 128, 128, 32, 64, 64, 1, 0, true, 1},
      {F::kShared, 128, 64, 32, 64, 32, 1, 0, true, 2},
      {F::kShared, 64, 64, 32, 32, 32, 1, 0, true, 3},
      {F::kShared, 32, 64, 64, 32, 32, 2, 0, false, 3},
      {F::kShared, 32, 32, 128, 32, 32, 4, 0, false, 2},
      {F::kRows, 64, 64, 0, 32, 32, 2, 0, false, 2},
      {F::kRows, 64, 32, 0, 32, 32, 2, 0, false, 3},
      {F::kRows, 64, 64, 0, 32, 64, 2, 0, false, 2},
      {F::kRows, 32, 64, 0, 32, 64, 4, 0, false, 2},
      {F::kRows, 32, 48, 0, 32, 48, 4, 0, false, 3},
      {F::kRows, 32, 32, 0, 32, 32, 4, 0, false, 3},
      {F::kRows, 16, 32, 0, 16, 32, 8, 0, false, 2},
      {F::kRows, 16, 16, 0, 16, 16, 8, 0, false, 3},
      {F::kRows, 16, 16, 0, 16, 16, 16, 0, false, 2},
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
      {F::kShared, 64, 64, 32, 32, 32, 1, 2, false, 3},
      {F::kShared, 64, 128, 32, 32, 32, 1, 0, false, 1},
      {F::kShared, 64, 128, 16, 32, 64, 1, 0, false, 1},
      {F::kShared, 64, 64, 32, 32, 32, 1, 0, false, 2},
      {F::kShared, 64, 64, 16, 32, 32, 1, 0, false, 2},
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
      {F::kShared, 128, 128, 32, 64, 32, 1, 0, false, 1, 1},
      {F::kShared, 64, 128, 32, 64, 32, 1, 0, false, 1, 1},
  };
  return tiles;
}

}  // namespace

const std::vector<MatrixTile>& matrix_tiles(const Pieces& pieces) {
  return pieces.scaled ? tiles_scaled() : pieces.count > 1 ? tiles_32() : tiles_16();
}

// Workgroups share compute units evenly, each
// of which needs several subgroups to be busy, and a chain of dependent steps takes its time.
double expected_time(const MatrixProblem& q, const MatrixTile& t) {
  const auto up = [](int64_t a, int64_t b) { return (a + b - 1) / b; };
  const int64_t units = q.c.device.compute_units > 0 ? q.c.device.compute_units : 64;
  const int64_t groups = up(q.m, t.bm) * up(q.n, t.bn) * std::max<int64_t>(q.z, 1);
  const int64_t on_unit = up(groups, units);
  const double steps = static_cast<double>(up(up(q.k, 16), t.wk));
  const double products = static_cast<double>(t.bm * t.bn * t.wk) / 256.0 * steps *
                          static_cast<double>(q.pieces.count * (q.pieces.count + 1) / 2);
  const auto busy = static_cast<double>(std::min(on_unit, t.per_unit) * t.warps());
  // Larger tiles of a subgroup load less for each product; packed operands need no shared memory.
  const double reuse = static_cast<double>(t.wm * t.wn) / static_cast<double>(t.wm + t.wn);
  const double feed = (t.family == MatrixTile::kShared ? 1.0 : 1.25) + 10.0 / reuse +
                      (t.family == MatrixTile::kShared && t.ring == 0 ? 0.25 : 0.0);
  const double rate = std::min(1.0, busy / 4.0) * 4.0;  // products in flight
  const double work = static_cast<double>(on_unit) * products * feed / rate;
  const double chain = steps * (t.family == MatrixTile::kShared ? 40.0 : 25.0) +
                       static_cast<double>(t.wk - 1) * 15.0;
  double packing = 0;
  if (t.packs_b() && !q.b.is_constant(q.w)) {
    packing += 2000.0 + static_cast<double>(q.n * q.k * q.z) / 4000.0;
  }
  if (t.family == MatrixTile::kPacked && !q.b.is_constant(q.a)) {
    packing += 2000.0 + static_cast<double>(q.m * q.k * q.z) / 4000.0;
  }
  if (q.pieces.scaled) packing += 6000.0 + static_cast<double>(q.m * q.k * q.z) / 2000.0;
  return std::max(work, chain) + 0.2 * std::min(work, chain) + packing;
}

}  // namespace tv
