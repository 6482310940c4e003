// For each point and tap the element of the plane that it looks at (`plane`, which is none, where
// that is outside) and the weight: element and weight [all_points, TAPS]. One point an invocation.
// Defines: those of grid_sample.glsl.

#include "grid_sample.glsl"

void main() {
  const uint id = tv_group() * LOCAL_X + gl_LocalInvocationID.x;
  if (id >= all_points) return;
  const Place p = place_of(id);
  for (uint t = 0u; t < TAPS; ++t) {
    const Tap tap = tap_of(p, t);
    element_store(id * TAPS + t, tap.at >= 0 ? tap.at : int(plane));
    weight_store(id * TAPS + t, tap.weight);
  }
}
