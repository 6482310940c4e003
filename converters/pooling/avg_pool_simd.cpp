// Average pools on CPU drivers: rows of the input are loaded as vectors, and added up as such.

#include <algorithm>

#include "converters/kit/row_tiles.h"
#include "converters/pooling/avg_pool.h"

namespace tv {

namespace {

/// Elements from the first that window 0 of `windows` neighbours has to the last that the last one
/// has, along dimension `i` (height, width); or nothing where that is not known.
std::optional<int64_t> elements_of(const NodeContext& c, PoolForm form, int i, int64_t windows) {
  if (!form.adaptive) {
    const PoolWindow window = window_of(c.node, form.dims);
    const auto kernel = window.kernel[i].constant(), stride = window.stride[i].constant();
    if (!kernel || !stride) return {};
    return (windows - 1) * *stride + *kernel;
  }
  const Planes from = planes_of(c.shape("self"), form.dims);
  const Planes to = planes_of(c.output().shape, form.dims);
  const auto in = (i == 0 ? from.height : from.width).constant();
  const auto out = (i == 0 ? to.height : to.width).constant();
  if (!in || !out || *out == 0) return {};
  // Windows of whole numbers of elements each begin where the one before ends.
  return *in % *out == 0 ? windows * (*in / *out) : windows * *in / *out + 2;
}

/// Whether integers are read or written, whatever the type of the sums.
bool is_quantised(const NodeContext& c) {
  const auto of_integers = [&c](ValueId id) { return !is_float(c.graph.value(id).dtype); };
  return of_integers(c.node.outputs[0]) ||
         std::any_of(c.node.prologue_inputs.begin(), c.node.prologue_inputs.end(), of_integers);
}

}  // namespace

Tactic avg_pool_simd_tactic(const NodeContext& c, PoolForm form) {
  constexpr int64_t kMostRows = 32, kSmall = 1 << 21;
  Tactic tactic{.name = "avg_pool_simd"};
  const Planes in = planes_of(c.shape("self"), form.dims);
  const Planes out = planes_of(c.output().shape, form.dims);
  const auto most = [&](const Expr& e) { return e.bounds(c.graph.symbols).second; };
  const int64_t lanes = c.device.subgroup_size;
  const auto rows = elements_of(c, form, 0, 1);
  const auto columns = elements_of(c, form, 1, std::min(lanes, most(out.width)));
  const bool plain = !(c.node.prologue && c.node.prologue_arg == "self");
  const RowTiles tiles{.planes = out.count,
                       .lines = out.height,
                       .width = out.width,
                       .in_width = in.width,
                       .rows_read = rows.value_or(1),
                       .reach = columns.value_or(1) - 1,
                       .dense = plain && c.dtype("self") == DType::kF32};
  tactic.refusal = row_tiles_refusal(c, tiles);
  if (is_quantised(c)) {
    tactic.refusal = "quantised results keep the order of PyTorch's sums, for their halves";
  } else if (!rows || !columns) {
    tactic.refusal = "windows are of symbolic sizes";
  } else if (*rows > kMostRows) {
    tactic.refusal = "windows are high";
  } else if (form.adaptive && std::max(most(in.width) * (most(out.width) + 1),
                                       most(in.height) * (most(out.height) + 1)) > kSmall) {
    tactic.refusal = "rows or columns are too long";
  }
  if (!tactic.refusal.empty()) return tactic;
  Step step = pool_step(c, form, "avg_pool_simd");
  step.defines.emplace_back("WINDOW_ROWS", text(*rows) + "u");
  add_row_tiles(c, tiles, step);
  tactic.steps.push_back(std::move(step));
  return tactic;
}

}  // namespace tv
