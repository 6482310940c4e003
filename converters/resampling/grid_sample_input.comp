// Gradient of grid_sample by the image: what each element gave to the points that look at it, in
// ascending order of the points. g: the result's gradient, [batch, channels, points]; keys, at: the
// sorted elements of each batch's points and taps, and which they are (sort_lines.h); weight:
// theirs.
// One element of y: [batch, channels, plane] an invocation. Defines: those of sort_key.glsl, TAPS.

#include "sort_key.glsl"

void main() {
  const uint id = tv_group() * LOCAL_X + gl_LocalInvocationID.x;
  if (id >= elements) return;
  const uint line = id / plane, batch = line / channels, entries = points * TAPS;
  const uint first = from + batch * entries;
  const KEY own = key_of(int(id - line * plane));
  uint low = 0u, high = entries;
  while (low < high) {
    const uint middle = (low + high) >> 1u;
    if (KEY(keys_raw(first + middle)) < own) {
      low = middle + 1u;
    } else {
      high = middle;
    }
  }
  float sum = 0.0;
  for (; low < entries; ++low) {
    if (KEY(keys_raw(first + low)) != own) break;
    const uint entry = min(uint(at_raw(first + low)), entries - 1u);
    sum += weight_load(batch * entries + entry) * g_load(line * points + entry / TAPS);
  }
  y_store(id, y_T(sum));
}
