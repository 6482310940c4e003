#include "converters/rows.h"

#include <algorithm>

namespace tv {

std::string RowStrategy::suffix() const {
  switch (kind) {
    case Kind::kLane:
      return "lane";
    case Kind::kGroup:
      return "group" + std::to_string(local);
    case Kind::kSubgroup:
      return "subgroup" + std::to_string(local);
  }
  return "";
}

void RowStrategy::apply(Step& step, const Expr& rows, const Expr& walked) const {
  step.local_size = {local, 1, 1};
  step.subgroup_size = subgroup;
  step.iterations = kind == Kind::kLane ? walked : ceil_div(walked, static_cast<int64_t>(local));
  step.grid = kind == Kind::kLane ? one_each(rows, local) : Grid::flat_groups(rows);
  step.defines.emplace_back("LANE", kind == Kind::kLane ? "1" : "0");
  step.defines.emplace_back("SUBGROUP", kind == Kind::kSubgroup ? "1" : "0");
  step.defines.emplace_back("HYBRID", kind == Kind::kGroup && subgroup != 0 ? "1" : "0");
}

std::string row_too_long(const NodeContext& c, const Expr& length, int64_t passes) {
  const int64_t most =
      c.device.max_loop_iterations() / passes * std::max(c.device.subgroup_size, 1u);
  if (!c.device.is_cpu() || length.bounds(c.graph.symbols).first <= most) return "";
  return "[" + c.node.op + "] rows of " + length.str() + " elements; this device takes " +
         std::to_string(most);
}

std::vector<RowStrategy> row_strategies(const DeviceProfile& device, const RowShape& shape) {
  using Kind = RowStrategy::Kind;
  const uint32_t width = std::max(device.subgroup_size, 1u);
  const RowStrategy lane{.kind = Kind::kLane, .local = device.is_cpu() ? width : 64};
  std::vector<RowStrategy> result;
  if (device.is_cpu()) {
    // A row per lane needs enough rows for both cores' lanes, and few enough iterations.
    const bool few = shape.rows < 4 * width && shape.length >= 2 * width;
    const bool long_rows = shape.longest > device.max_loop_iterations() / shape.passes;
    if ((few || long_rows) && shape.shuffles) {
      result.push_back({.kind = Kind::kSubgroup, .local = width, .subgroup = width});
    } else if (long_rows) {
      result.push_back({.kind = Kind::kGroup, .local = 64});
    }
  } else {
    const bool few = shape.rows < 4096;
    if (shape.length >= 32 && (shape.contiguous || few)) {
      const uint32_t want = shape.length >= 1024 ? 256 : shape.length >= 256 ? 128 : 64;
      const uint32_t most =
          std::min(device.max_workgroup_invocations, device.max_workgroup_size[0]);
      const bool hybrid = shape.shuffles && device.subgroup_size_control && want % width == 0;
      const uint32_t subgroup = hybrid ? width : 0;
      if (want <= most) {
        result.push_back({.kind = Kind::kGroup, .local = want, .subgroup = subgroup});
      }
    }
  }
  result.push_back(lane);
  return result;
}

}  // namespace tv
