// The most frequent element of each sorted line, the smallest of several, and its last position.
// Nans are not equal to each other.
//
// x: lines of `count` elements, `inner` apart; keys, at: lines `pitch` apart, read from `from` on.
// A line a workgroup. Defines: those of sort_key.glsl, INDICES.

#include "sort_key.glsl"

shared uvec2 best_[LOCAL_X];  // how often, and where the run ends

/// Of equals the earlier.
uvec2 better(uvec2 a, uvec2 b) {
  return a.x > b.x || (a.x == b.x && a.y < b.y) ? a : b;
}

void main() {
  const uint row = tv_group(), t = gl_LocalInvocationID.x;
  if (row >= rows || count == 0u) return;
  const uint line = from + row * pitch;
  uvec2 best = uvec2(0u, count - 1u);
  for (uint i = t; i < count; i += LOCAL_X) {
    const KEY key = KEY(keys_raw(line + i));
    bool last = i + 1u == count;
    if (!last) last = KEY(keys_raw(line + i + 1u)) != key;
    uint low = 0u, high = i;
#if FLOAT_KEY
    if (key == 0xffffffffu) {
      last = true;
      low = i;
    }
#endif
    if (!last) continue;
    while (low < high) {
      const uint middle = (low + high) >> 1u;
      if (KEY(keys_raw(line + middle)) < key) {
        low = middle + 1u;
      } else {
        high = middle;
      }
    }
    best = better(best, uvec2(i - low + 1u, i));
  }
  best_[t] = best;
  barrier();
  for (uint reach = LOCAL_X / 2u; reach > 0u; reach >>= 1u) {
    if (t < reach) best_[t] = better(best_[t], best_[t + reach]);
    barrier();
  }
  if (t != 0u) return;
  const uint at_i = min(uint(at_raw(line + best_[0].y)), count - 1u), outer = row / inner;
  y_store(row, y_T(x_load((outer * count + at_i) * inner + (row - outer * inner))));
#if INDICES
  idx_store(row, idx_T(at_i));
#endif
}
