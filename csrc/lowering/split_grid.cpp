#include "csrc/lowering/split_grid.h"

namespace tv {

namespace {

constexpr int64_t kMostParts = 64;

/// Workgroups of part `i` of `count`. The last one takes all that are left, so that a shape for
/// which there are too few parts is refused.
Expr groups_of_part(const Expr& groups, int64_t i, int64_t count, int64_t most) {
  const Expr left = groups - Expr(i * most);
  const Expr some = i == 0 ? left : max(left, 0);
  return i + 1 == count ? some : min(some, most);
}

}  // namespace

std::vector<Step> split_grid(Step step, std::span<const Symbol> symbols,
                             const DeviceProfile& device) {
  std::array<int64_t, 3> parts = {1, 1, 1};
  int64_t all = 1;
  for (size_t d = 0; !step.grid.flat && d < parts.size(); ++d) {
    const int64_t groups = step.grid.groups[d].bounds(symbols).second, most = device.max_grid[d];
    parts[d] = groups <= most ? 1 : groups / most + (groups % most != 0 ? 1 : 0);
    if (parts[d] > kMostParts / all) return {std::move(step)};
    all *= parts[d];
  }
  if (all == 1) return {std::move(step)};
  std::vector<Step> steps;
  for (int64_t i = 0; i < all; ++i) {
    Step part = step;
    part.defines.emplace_back("GRID_PART", "1");
    int64_t rest = i;
    for (size_t d = 0; d < parts.size(); ++d) {
      const int64_t most = device.max_grid[d], at = rest % parts[d];
      const std::string name(1, "xyz"[d]);
      rest /= parts[d];
      part.params.push_back(
          {.name = "tv_first_" + name, .value = Expr(at * most), .specialise = true});
      part.params.push_back(
          {.name = "tv_groups_" + name, .value = step.grid.groups[d], .specialise = true});
      part.grid.groups[d] = groups_of_part(step.grid.groups[d], at, parts[d], most);
    }
    steps.push_back(std::move(part));
  }
  return steps;
}

}  // namespace tv
