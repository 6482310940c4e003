#include "converters/matmul/few_rows.h"

#include <algorithm>
#include <iterator>

#include "converters/matmul/matrix_units.h"

namespace tv {

std::string RowsTile::name() const {
  const std::string of_subgroup = "_w" + text(rows) + "x" + text(cols);
  return text(rows) + "x" + text(columns()) + of_subgroup + (wk > 1 ? "x" + text(wk) : "");
}

std::vector<RowsTile> rows_tiles(const DeviceProfile& device, const FewRows& p) {
  // To load and unpack an element takes as long as to multiply it by so many rows.
  constexpr int64_t kUnpack = 4, kSubgroupsPerComputeUnit = 24, kWide = 4, kMostWide = 2;
  std::vector<int64_t> heights = p.heights;
  std::ranges::stable_sort(heights, {}, [&](int64_t r) { return div_up(p.m, r) * (kUnpack + r); });
  const auto wk = [&](int64_t rows, int64_t cols) {
    const int64_t wanted = compute_units(device) * kSubgroupsPerComputeUnit;
    const int64_t subgroups = div_up(p.n, cols) * div_up(p.m, rows);
    int64_t count = 1;
    while (count < RowsTile::kSubgroups && count * 2 <= p.steps && subgroups * count < wanted) {
      count *= 2;
    }
    return count;
  };
  std::vector<RowsTile> tiles;
  for (const int64_t rows : heights) {
    const int64_t cols = rows <= kMostWide ? kWide : kWide / 2, own = wk(rows, cols);
    tiles.push_back({rows, cols, own});
    tiles.push_back({rows, cols / 2, wk(rows, cols / 2)});
    if (own < RowsTile::kSubgroups && own < p.steps) tiles.push_back({rows, cols, own * 2});
  }
  return tiles;
}

std::string rows_refusal(const DeviceProfile& device, const RowsTile& tile, int64_t m) {
  if (device.is_cpu()) return "another kernel is made for CPUs";
  if (!device.subgroup_size_control || device.subgroup_size < 8) {
    return "the device does not promise the size of subgroups";
  }
  if (m > 4 * tile.rows) return "the product has many more rows than the tile";
  if (tile.rows >= 2 * m && tile.rows > 1)
    return "the product has half the rows of the tile or fewer";
  return "";
}

std::vector<Tactic> in_order(std::vector<Tactic> rows, std::vector<Tactic> tiles, int64_t m) {
  constexpr int64_t kFew = 2, kMany = 32;
  std::vector<Tactic> all;
  const auto take = [&](std::vector<Tactic>& from, size_t count) {
    const auto end = from.begin() + static_cast<int64_t>(std::min(count, from.size()));
    std::move(from.begin(), end, std::back_inserter(all));
    from.erase(from.begin(), end);
  };
  const auto take_one = [&](std::vector<Tactic>& from) {  // that is not refused
    const auto first = std::ranges::find(from, "", &Tactic::refusal);
    take(from, first == from.end() ? from.size() : static_cast<size_t>(first - from.begin()) + 1);
  };
  while (m > kFew && m <= kMany && !rows.empty() && !tiles.empty()) {
    take_one(tiles);
    take_one(rows);
  }
  take(m <= kFew ? rows : tiles, SIZE_MAX);
  take(m <= kFew ? tiles : rows, SIZE_MAX);
  return all;
}

Step rows_step(const std::string& kernel, const DeviceProfile& device, const RowsTile& tile,
               const Expr& m, const Expr& n) {
  const int64_t lanes = device.subgroup_size;
  return {.kernel = kernel,
          .defines = {{"ROWS", text(tile.rows)},
                      {"COLS", text(tile.cols)},
                      {"WK", text(tile.wk)},
                      {"SUBGROUPS", text(RowsTile::kSubgroups)},
                      {"LANES_K", text(lanes)}},
          .grid = {{ceil_div(n, tile.columns()), ceil_div(m, tile.rows), 1}},
          .local_size = {static_cast<uint32_t>(RowsTile::kSubgroups * lanes), 1, 1},
          .subgroup_size = static_cast<uint32_t>(lanes)};
}

}  // namespace tv
