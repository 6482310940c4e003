#pragma once
// What kernels of products of few rows share (matmul_quantised_rows, matmul_integer_rows): a
// subgroup for some columns, whose invocations share the steps of k.

#include <string>
#include <vector>

#include "converters/kit/steps.h"

namespace tv {

/// A subgroup has rows x cols results, and shares their steps of k with `wk` of its workgroup,
/// itself included.
struct RowsTile {
  static constexpr int64_t kSubgroups = 4;  ///< of a workgroup
  int64_t rows, cols, wk;
  int64_t columns() const { return cols * kSubgroups / wk; }  ///< of a workgroup
  std::string name() const;                                   ///< "4x8_w4x4x2"
};

/// A product as tiles are chosen for it: typical sizes, and steps of k of a subgroup alone.
struct FewRows {
  int64_t m, n, steps;
  std::vector<int64_t> heights;  ///< rows of tiles that a kernel offers
};

/// Tiles, best first: wide ones read a row of a for more columns, and subgroups share steps of k
/// where there would be few of them otherwise.
std::vector<RowsTile> rows_tiles(const DeviceProfile& device, const FewRows& problem);

/// Why a device has no such kernels, or the product too many or too few rows for the
/// tile; or "".
std::string rows_refusal(const DeviceProfile& device, const RowsTile& tile, int64_t m);

/// Tactics of both kinds: up to a few rows the `rows` first, then the best of each alternately, for
/// more rows the `tiles` first. Those that are refused stay where they are among their kind.
std::vector<Tactic> in_order(std::vector<Tactic> rows, std::vector<Tactic> tiles, int64_t m);

/// A launch of a tile: grid, workgroup and the macros ROWS, COLS, WK, SUBGROUPS, LANES_K.
Step rows_step(const std::string& kernel, const DeviceProfile& device, const RowsTile& tile,
               const Expr& m, const Expr& n);

}  // namespace tv
