// Sorts tiles of SEGMENT neighbours along a line by (key, position): bitonic, always ascending
// (Batcher 1968), in shared memory. Positions make the keys distinct, so the result is stable.
//
// x: lines of `count` elements, `inner` apart; `rows` lines. Of each sorted tile the first `limit`
// go to keys and at, [rows, count] each; or, where a line is one tile (DIRECT), to y and idx.
// A workgroup has ELEMENTS elements: one tile or several. Defines: those of sort_key.glsl,
// ELEMENTS, SEGMENT (powers of two), DIRECT, INDICES.

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

/// Where element e of the workgroup is, of segments from `first` on.
struct Spot {
  uint row, i;             // line, and place on it
  uint outer, inner_part;  // the line's coordinates
  bool exists;
};

Spot spot_of(uint first, uint e) {
  const uint tiles = (count + SEGMENT - 1u) / SEGMENT;
  const uint segment = first + e / SEGMENT, row = segment / tiles;
  const uint i = (segment - row * tiles) * SEGMENT + e % SEGMENT, outer = row / inner;
  return Spot(row, i, outer, row - outer * inner, row < rows && i < count);
}

uint place_of(Spot spot, uint i) { return (spot.outer * count + i) * inner + spot.inner_part; }

void load(uint first) {
  for (uint e = gl_LocalInvocationID.x; e < ELEMENTS; e += LOCAL_X) {
    const Spot spot = spot_of(first, e);
    keys_[e] = KEY_MOST;
    at_[e] = 0xffffffffu;
    if (spot.exists) {
      keys_[e] = key_of(x_load(place_of(spot, spot.i)));
      at_[e] = spot.i;
    }
  }
}

void sort() {
  const uint t = gl_LocalInvocationID.x;
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
}

void store(uint first) {
  for (uint e = gl_LocalInvocationID.x; e < ELEMENTS; e += LOCAL_X) {
    const Spot spot = spot_of(first, e);
    const uint place = e % SEGMENT;
    if (!spot.exists || place >= limit) continue;
#if DIRECT
    const uint to = (spot.outer * limit + place) * inner + spot.inner_part;
    y_store(to, y_T(x_load(place_of(spot, at_[e]))));
#if INDICES
    idx_store(to, idx_T(at_[e]));
#endif
#else
    keys_raw_store(spot.row * count + spot.i, keys_T(keys_[e]));
    at_raw_store(spot.row * count + spot.i, int(at_[e]));
#endif
  }
}

void main() {
  const uint tiles = (count + SEGMENT - 1u) / SEGMENT;
  const uint first = tv_group() * (ELEMENTS / SEGMENT);
  if (first >= rows * tiles) return;
  load(first);
  barrier();
  sort();
  store(first);
}
