// y[n, c, p] = x around point p of grid n: [batch, channels, points] of x: [batch, channels,
// plane]. One output an invocation. Defines: those of grid_sample.glsl.

#include "grid_sample.glsl"

void main() {
  const uint id = tv_group() * LOCAL_X + gl_LocalInvocationID.x;
  if (id >= outputs) return;
  const uint line = id / points, batch = line / channels;
  const Place p = place_of(batch * points + (id - line * points));
  float sum = 0.0;
  for (uint t = 0u; t < TAPS; ++t) {
    const Tap tap = tap_of(p, t);
    if (tap.at >= 0) sum += tap.weight * x_load(line * plane + uint(tap.at));
  }
  y_store(id, y_T(sum));
}
