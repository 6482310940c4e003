// Gradient of grid_sample by the grid: [batch, points, DIMS]. g: the result's gradient, [batch,
// channels, points]; x: [batch, channels, plane]. One point an invocation. Defines: those of
// grid_sample.glsl.

#include "grid_sample.glsl"

void main() {
  const uint id = tv_group() * LOCAL_X + gl_LocalInvocationID.x;
  if (id >= all_points) return;
  const uint batch = id / points, point = id - batch * points;
  const Place p = place_of(id);
  float sum[DIMS];
  [[unroll]] for (int k = 0; k < DIMS; ++k) sum[k] = 0.0;
  for (uint t = 0u; t < TAPS; ++t) {
    const Tap tap = tap_of(p, t);
    if (tap.at < 0) continue;
    float both = 0.0;
    for (uint c = 0u; c < channels; ++c) {
      const uint line = batch * channels + c;
      both += g_load(line * points + point) * x_load(line * plane + uint(tap.at));
    }
    [[unroll]] for (int k = 0; k < DIMS; ++k) sum[k] += tap.by[k] * both;
  }
  [[unroll]] for (int k = 0; k < DIMS; ++k) y_store(id * DIMS + k, y_T(sum[k] * p.slope[k]));
}
