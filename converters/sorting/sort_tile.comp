// Sorts tiles of SEGMENT neighbours along a line by (key, position): bitonic, always ascending
// (Batcher 1968), in shared memory. Positions make the keys distinct, so the result is stable.
//
// x: lines of `count` elements, `inner` apart; `rows` lines. Of each sorted tile the first `limit`
// go to keys and at, [rows, count] each; or, where a line is one tile (DIRECT), to y and idx.
// A workgroup has ELEMENTS elements: one tile or several. Defines: those of sort_key.glsl, ELEMENTS,
// SEGMENT (powers of two), DIRECT, INDICES.

#include "sort_key.glsl"

shared KEY keys_[ELEMENTS];
shared uint at_[ELEMENTS];

void order(uint low, uint high) {
  const KEY a = keys_[low], b = keys_[high];
  const uint i = at_[low], j = at_[high];
  if (a < b || (a == b && i < j)) return;
  keys_[low] = b;
  keys_[high] = a;
  at_[low] = j;
  at_[high] = i;
}

void main() {
  const uint t = gl_LocalInvocationID.x;
  const uint tiles = (count + SEGMENT - 1u) / SEGMENT;
  const uint first = tv_group() * (ELEMENTS / SEGMENT);
  if (first >= rows * tiles) return;
  for (uint e = t; e < ELEMENTS; e += LOCAL_X) {
    const uint segment = first + e / SEGMENT, row = segment / tiles;
    const uint i = (segment - row * tiles) * SEGMENT + e % SEGMENT;
    keys_[e] = KEY_MOST;
    at_[e] = 0xffffffffu;
    if (row < rows && i < count) {
      const uint outer = row / inner;
      keys_[e] = key_of(x_load((outer * count + i) * inner + (row - outer * inner)));
      at_[e] = i;
    }
  }
  barrier();
  for (uint size = 2u; size <= SEGMENT; size <<= 1u) {
    for (uint p = t; p < ELEMENTS / 2u; p += LOCAL_X) {
      const uint o = p & (size / 2u - 1u), base = (p - o) * 2u;
      order(base + o, base + size - 1u - o);
    }
    barrier();
    for (uint reach = size / 4u; reach > 0u; reach >>= 1u) {
      for (uint p = t; p < ELEMENTS / 2u; p += LOCAL_X) {
        const uint o = p & (reach - 1u), low = (p - o) * 2u + o;
        order(low, low + reach);
      }
      barrier();
    }
  }
  for (uint e = t; e < ELEMENTS; e += LOCAL_X) {
    const uint segment = first + e / SEGMENT, row = segment / tiles, place = e % SEGMENT;
    const uint i = (segment - row * tiles) * SEGMENT + place;
    if (row >= rows || i >= count || place >= limit) continue;
#if DIRECT
    const uint outer = row / inner, k = row - outer * inner;
    const uint to = (outer * limit + place) * inner + k;
    y_store(to, y_T(x_load((outer * count + at_[e]) * inner + k)));
#if INDICES
    idx_store(to, idx_T(at_[e]));
#endif
#else
    keys_raw_store(row * count + i, keys_T(keys_[e]));
    at_raw_store(row * count + i, int(at_[e]));
#endif
  }
}
