#include "converters/convolution/convolution_planes.h"

#include <algorithm>

namespace tv {

SimdPlace Plane::place(const ConvShape& s, int64_t channel,
                       const std::array<int64_t, 3>& tap) const {
  std::array<int64_t, 3> at{}, phase{};
  for (size_t k = 0; k < 3; ++k) {
    at[k] = tap[k] * s.dilation[k] / s.stride[k];
    phase[k] = tap[k] * s.dilation[k] % s.stride[k];
  }
  const int64_t number = (phase[0] * phases[1] + phase[1]) * phases[2] + phase[2];
  return {{channel, number, at[0], at[1]}, at[2]};
}

Plane plane_of(const ConvShape& s, int64_t tile) {
  Plane p;
  for (size_t k = 0; k < 3; ++k) {
    p.phases[k] = 1;
    p.reach[k] = 0;
    for (int64_t t = 0; t < *s.kernel[k].constant(); ++t) {
      p.phases[k] = std::max(p.phases[k], t * s.dilation[k] % s.stride[k] + 1);
      p.reach[k] = std::max(p.reach[k], t * s.dilation[k] / s.stride[k]);
    }
  }
  p.depth = s.out[0] + p.reach[0];
  p.height = s.out[1] + p.reach[1];
  p.pitch = s.out[2] + p.reach[2];
  p.slab = p.height * p.pitch;
  p.phase_size = p.depth * p.slab;
  // The last tile of columns reads past the last row; what it reads there is no output.
  p.plane = round_up(p.phase_size * p.phase_count() + tile, 2);
  return p;
}

namespace {

/// Makes `step`, which has the parameters of conv_pad, one of whole vectors, where rows of the
/// input are neighbours and of known lengths.
void pad_by_vectors(const NodeContext& c, const ConvShape& s, const Plane& p, Step& step) {
  constexpr int64_t kRun = 512, kMostOfGrid = 512;
  const int64_t lanes = c.device.subgroup_size;
  const auto pitch = p.pitch.constant(), width = s.in[2].constant(), pad = s.pad[2].constant();
  const auto all = (p.depth * p.height).constant();
  const bool plain = c.dtype("input") == DType::kF32 && s.x_zero == kNoValue &&
                     s.x_at[2] == Expr(1) &&
                     std::ranges::all_of(s.lhs, [](int64_t l) { return l == 1; });
  if (!plain || !pitch || !width || !pad || !all || *width == 0) return;
  const int64_t rows = std::clamp<int64_t>(kRun / *pitch, 1, *all);
  if (rows * *pitch < 2 * lanes || rows * *pitch > 2 * kRun) return;
  const int64_t blocks = div_up(*all, rows);
  const auto uniform = [&](const Expr& count) {
    const bool small = count.bounds(c.graph.symbols).second <= kMostOfGrid;
    return small ? "simd_uniform_small(i)" : "simd_uniform(i)";
  };
  const Expr places = blocks * p.phase_count();
  step.kernel = "conv_pad_simd";
  step.defines = {{"PITCH", text(*pitch) + "u"},
                  {"ROWS", text(rows) + "u"},
                  {"ALL_ROWS", text(*all) + "u"},
                  {"IN_W", text(*width)},
                  {"PAD_W", text(*pad)},
                  {"STRIDE_W", text(s.stride[2])},
                  {"PLACE_OF(i)", uniform(places)},
                  {"CHANNEL_OF(i)", uniform(step.grid.groups[1])},
                  {"IMAGE_OF(i)", uniform(step.grid.groups[2])}};
  // They must fit beside the table in 128 bytes.
  std::vector<std::string> read = {"x_c",   "x_z",      "x_h",   "in_h",       "stride_h",
                                   "pad_h", "ic_count", "plane", "phase_size", "phases_w"};
  if (!s.is_planar()) {
    step.defines.emplace_back("DEPTH", "1");
    read.insert(read.end(), {"x_d", "in_d", "stride_d", "pad_d", "phases_h"});
    step.params.push_back(param("rows_h", p.height));
    read.emplace_back("rows_h");
  }
  std::erase_if(step.params,
                [&](const Param& q) { return std::ranges::find(read, q.name) == read.end(); });
  step.params.push_back(param("blocks", Expr(blocks)));
  step.grid.groups[0] = places;
  step.local_size = {static_cast<uint32_t>(lanes), 1, 1};
  step.subgroup_size = static_cast<uint32_t>(lanes);
  step.uniform_table = true;
}

}  // namespace

ValueId add_pad(const NodeContext& c, Builder& b, const ConvShape& s, const Plane& p,
                const Expr& channels, std::vector<Step>& steps) {
  const Expr planes = s.n * s.groups;
  const ValueId y = b.scratch("padded", DType::kF32, {planes, channels, p.plane});
  const Expr pairs = floordiv(p.plane, 2);
  const bool small = p.plane.bounds(c.graph.symbols).second < kSmallPlane;
  Step step{
      .kernel = "conv_pad",
      .defines = {{"PHASES", p.phase_count() > 1 ? "1" : "0"}, {"SMALL_PLANE", small ? "1" : "0"}},
      .operands = {src("x", s.x), dst("y", y)},
      .grid = {{ceil_div(pairs, 64), channels, planes}},
      .local_size = {64, 1, 1}};
  add_geometry(step, s);
  step.params.insert(
      step.params.end(),
      {param("x_z", s.groups == Expr(1) ? s.x_n : s.x_c * s.ic), param("count", pairs),
       param("plane", p.plane), param("phase_size", p.phase_size),
       param("phases_w", Expr(p.phases[2])), param("pitch", p.pitch)});
  if (!s.is_planar()) {
    step.params.push_back(param("phases_h", Expr(p.phases[1])));
    step.params.push_back(param("slab", p.slab));
  }
  pad_by_vectors(c, s, p, step);
  steps.push_back(std::move(step));
  return y;
}

}  // namespace tv
