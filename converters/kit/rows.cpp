#include "converters/kit/rows.h"

#include <algorithm>

#include "converters/kit/simd.h"

namespace tv {

namespace {

constexpr int64_t kMostOfGrid = 65535;  ///< workgroups in a dimension, on CPU drivers

using Kind = RowStrategy::Kind;

constexpr int64_t kMostKept = 8;     // vectors: 32 registers
constexpr int64_t kManyRows = 2048;  // give every subgroup of a large GPU one
constexpr uint32_t kLongRow = 64;    // invocations of a CPU driver for what a subgroup cannot walk

uint32_t power_of_two_from(int64_t least) {
  uint32_t value = 1;
  while (value < least) value *= 2;
  return value;
}

/// Rows that stay in registers, read and written once, best first.
std::vector<RowStrategy> keeping_strategies(const DeviceProfile& device, const RowShape& shape) {
  std::vector<RowStrategy> result;
  if (shape.vectors == 0 || !shape.contiguous || !device.subgroup_size_control) return result;
  const uint32_t width = device.subgroup_size;
  const uint32_t most = std::min(device.max_workgroup_invocations, device.max_workgroup_size[0]);
  const auto kept = [&](uint32_t lanes) { return (shape.vectors + lanes - 1) / lanes; };
  if (kept(width) <= kMostKept && 4 * width <= most) {
    result.push_back({.kind = Kind::kSubgroup,
                      .local = 4 * width,
                      .subgroup = width,
                      .keep = static_cast<uint32_t>(kept(width))});
  }
  // As many invocations as there are vectors, for rows that are few; fewer for rows that are many.
  const bool many = shape.rows >= kManyRows;
  const int64_t want = many ? (shape.vectors + 3) / 4 : shape.vectors;
  const uint32_t group = std::clamp(power_of_two_from(want), 2 * width, std::min(most, 512U));
  if (group % width == 0 && kept(group) <= kMostKept) {
    result.push_back({.kind = Kind::kGroup,
                      .local = group,
                      .subgroup = width,
                      .keep = static_cast<uint32_t>(kept(group))});
    if (!many && shape.vectors > width) std::rotate(result.begin(), result.end() - 1, result.end());
  }
  return result;
}

}  // namespace

int64_t whole_vectors(const Expr& length) {
  const auto constant = length.constant();
  return constant && *constant % 4 == 0 ? *constant / 4 : 0;
}

std::string RowStrategy::suffix() const {
  const std::string kept = keep > 0 ? "_keep" + std::to_string(keep) : "";
  switch (kind) {
    case Kind::kInvocation:
      return "invocation";
    case Kind::kGroup:
      return "group" + std::to_string(local) + kept;
    case Kind::kSubgroup:
      return "subgroup" + std::to_string(local) + kept;
  }
  return "";
}

void RowStrategy::apply(Step& step, const Expr& rows, const Expr& walked) const {
  step.local_size = {local, 1, 1};
  step.subgroup_size = subgroup;
  step.iterations =
      kind == Kind::kInvocation ? walked : ceil_div(walked, static_cast<int64_t>(row_lanes()));
  step.grid = kind == Kind::kInvocation
                  ? one_each(rows, local)
                  : Grid::flat_groups(ceil_div(rows, static_cast<int64_t>(this->rows())));
  step.defines.emplace_back("PER_INVOCATION", kind == Kind::kInvocation ? "1" : "0");
  step.defines.emplace_back("SUBGROUP", kind == Kind::kSubgroup ? "1" : "0");
  step.defines.emplace_back("HYBRID", kind == Kind::kGroup && subgroup != 0 ? "1" : "0");
  step.defines.emplace_back("ROWS", std::to_string(this->rows()) + "u");
  step.defines.emplace_back("ROW_LANES", std::to_string(local / this->rows()) + "u");
  step.defines.emplace_back("KEEP", std::to_string(keep));
}

std::string row_too_long(const NodeContext& c, const Expr& length, int64_t passes) {
  if (!c.device.is_cpu()) return "";
  const int64_t most = c.device.max_loop_iterations() / passes * kLongRow;
  if (length.bounds(c.graph.symbols).first <= most) return "";
  return "[" + c.node.op + "] rows of " + length.str() + " elements; this device takes " +
         std::to_string(most);
}

std::vector<RowStrategy> row_strategies(const DeviceProfile& device, const RowShape& shape) {
  const uint32_t width = std::max(device.subgroup_size, 1u);
  const RowStrategy per_invocation{.kind = Kind::kInvocation,
                                   .local = device.is_cpu() ? width : 64};
  std::vector<RowStrategy> result;
  if (device.is_cpu()) {
    // A row per lane needs enough rows for both cores' lanes, and few enough iterations.
    const bool few = shape.rows < 4 * width && shape.length >= 2 * width;
    const int64_t most = device.max_loop_iterations() / shape.passes;  // elements
    const int64_t most_shuffled = shape.shuffles ? most * width : 0;
    const bool longer = shape.longest > std::max(most, most_shuffled);
    const bool usually_longer = longer && shape.length > most_shuffled;
    if ((few || shape.longest > most) && shape.shuffles && !usually_longer) {
      result.push_back({.kind = Kind::kSubgroup, .local = width, .subgroup = width});
    }
    if (longer) result.push_back({.kind = Kind::kGroup, .local = kLongRow});
  } else {
    result = keeping_strategies(device, shape);
    const bool few = shape.rows < 4096;
    if (shape.length >= 32 && (shape.contiguous || few)) {
      const uint32_t want = shape.length >= 1024 ? 256 : shape.length >= 256 ? 128 : 64;
      const uint32_t most =
          std::min(device.max_workgroup_invocations, device.max_workgroup_size[0]);
      const bool hybrid = shape.shuffles && device.subgroup_size_control && want % width == 0;
      const uint32_t subgroup = hybrid ? width : 0;
      if (shape.rows >= kManyRows && shape.length <= 4096 && subgroup != 0 && 4 * width <= most) {
        result.push_back({.kind = Kind::kSubgroup, .local = 4 * width, .subgroup = width});
      }
      if (want <= most) {
        result.push_back({.kind = Kind::kGroup, .local = want, .subgroup = subgroup});
      }
    }
  }
  result.push_back(per_invocation);
  return result;
}

RowBlocks row_blocks(const NodeContext& c, Expr rows, Expr segments, Expr count) {
  constexpr int64_t kPairs = 16;
  RowBlocks out{.refusal = simd_refusal(c.device)};
  if (!out.refusal.empty()) return out;
  const int64_t wide = 2 * static_cast<int64_t>(c.device.subgroup_size);
  // A grid of known size is split where it is too large (split_grid).
  const auto fits = [&](const Expr& groups) {
    return groups.constant() || groups.bounds(c.graph.symbols).second <= kMostOfGrid;
  };
  if (count.bounds(c.graph.symbols).first < wide) out.refusal = "rows are too short";
  if (!fits(rows) || !fits(segments)) out.refusal = "there may be more than 65535 rows";
  if (!out.refusal.empty()) return out;
  // Blocks of a known length share it evenly.
  const int64_t pairs = count.constant() ? div_up(*count.constant(), wide) : kPairs;
  out.width = div_up(pairs, div_up(pairs, kPairs)) * wide;
  out.blocks = ceil_div(count, out.width);
  out.rows = std::move(rows);
  out.segments = std::move(segments);
  out.count = std::move(count);
  return out;
}

Step RowBlocks::each(const NodeContext& c, std::string kernel, std::string load) const {
  const int64_t lanes = c.device.subgroup_size;
  return {.kernel = std::move(kernel),
          .defines = {{"PAIRS", text(width / (2 * lanes)) + "u"}, {"X_AT(i)", std::move(load)}},
          .params = {param("count", count), param("blocks", blocks)},
          .grid = {{blocks, segments, rows}},
          .local_size = {c.device.subgroup_size, 1, 1},
          .subgroup_size = c.device.subgroup_size,
          .uniform_table = true,
          .simd_row = count};
}

Step RowBlocks::merged(std::string kernel) const {
  constexpr uint32_t kRows = 16;
  return {.kernel = std::move(kernel),
          .params = {param("rows", rows), param("blocks", blocks)},
          .grid = one_each(rows, kRows),
          .local_size = {kRows, 1, 1},
          .iterations = in_row() * 2};
}

std::string make_row_simd(const NodeContext& c, const RowShape& shape, const Expr& rows,
                          const Expr& length, Step& step) {
  constexpr int64_t kMostVectors = 96;  // that LLVM keeps in straight-line code
  std::string refusal = simd_refusal(c.device);
  if (!refusal.empty()) return refusal;
  const int64_t lanes = c.device.subgroup_size;
  const auto count = length.constant();
  if (!count || !shape.contiguous) return "rows are not of one length, or not of neighbours";
  if (*count < 2 * lanes || *count > kMostVectors * lanes) return "rows are too short or too long";
  if (rows.bounds(c.graph.symbols).second > kMostOfGrid) return "there may be more than 65535 rows";
  step.kernel += "_simd";
  step.defines.emplace_back("BLOCKS", std::to_string((*count + 2 * lanes - 1) / (2 * lanes)) + "u");
  for (Param& p : step.params) p.specialise = p.name == "count";
  step.local_size = {static_cast<uint32_t>(lanes), 1, 1};
  step.subgroup_size = static_cast<uint32_t>(lanes);
  step.grid = {{rows, 1, 1}};
  step.uniform_table = true;
  step.simd_row = length;
  return "";
}

}  // namespace tv
