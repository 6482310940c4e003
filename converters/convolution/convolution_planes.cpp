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
  steps.push_back(std::move(step));
  return y;
}

}  // namespace tv
