// Resizing on CPU drivers: rows of the input are loaded as vectors, and added up as such.

#include <algorithm>
#include <cmath>

#include "converters/kit/row_tiles.h"
#include "converters/resampling/resize.h"

namespace tv {

namespace {

/// The most source steps an output step, or nothing where that is not known.
std::optional<double> pace_of(const NodeContext& c, const Axis& a) {
  const double least = a.in == a.out ? 1.0 : 0.0;  // then it may be a copy, whatever the scale
  if (!c.node.flag("align_corners") && a.scale > 0) return std::max(a.scale, least);
  if (a.in.constant() && a.out.constant()) {
    const auto in = static_cast<double>(*a.in.constant());
    const auto out = static_cast<double>(*a.out.constant());
    if (!c.node.flag("align_corners")) return in / out;
    return out > 1 ? std::max((in - 1) / (out - 1), least) : least;
  }
  for (int64_t factor = 1; factor <= 8; ++factor) {  // (in - 1) / (out - 1) is smaller still
    if (a.out == a.in * factor) return 1.0 / static_cast<double>(factor);
  }
  return {};
}

int64_t taps_of(const Resize& r) { return r.mode == "CUBIC" ? 4 : r.mode == "LINEAR" ? 2 : 1; }

}  // namespace

Tactic upsample_simd_tactic(const NodeContext& c, const Resize& r) {
  Tactic tactic{.name = "upsample_simd"};
  const Axis inner = axes_of(c, r).back();
  const auto pace = pace_of(c, inner);
  const Shape& out = c.output().shape;
  const int64_t taps = taps_of(r), rank = static_cast<int64_t>(out.size());
  RowTiles tiles{.planes = product_of(out, 0, r.dims == 1 ? 0 : rank - 2),
                 .lines = product_of(out, r.dims == 1 ? 0 : rank - 2, rank - 1),
                 .width = inner.out,
                 .in_width = inner.in,
                 .dense = c.output().dtype == DType::kF32};
  for (int k = 1; k < r.dims; ++k) tiles.rows_read *= taps;
  // Rounding may add one, and so may the place of the first lane.
  const double steps = pace.value_or(0) * static_cast<double>(c.device.subgroup_size - 1);
  tiles.reach = static_cast<int64_t>(std::floor(steps)) + taps;
  tactic.refusal = row_tiles_refusal(c, tiles);
  if (!pace) tactic.refusal = "the scale is not known";
  if (!is_float(c.output().dtype)) tactic.refusal = "not of a floating type";
  if (!tactic.refusal.empty()) return tactic;
  Step step = resize_step(c, r, "upsample_simd");
  add_row_tiles(c, tiles, step);
  tactic.steps.push_back(std::move(step));
  return tactic;
}

}  // namespace tv
