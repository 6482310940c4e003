// Merges the first LIST vectors of each of VECTORS / LIST blocks of a line, `apart` blocks from
// each other, into those of the first of them, on CPU drivers (sort_simd.glsl): the first of both
// of two sorted lists are a bitonic sequence, element by element of one and of the other from its
// end.
//
// `blocks` of a line in keys and at, `rows` lines, `groups` of blocks of each. NETWORK(k, at): the
// comparisons. Flat grid.

#include "sort_blocks_simd.glsl"

void main() {
  const uint g = UNIFORM_GROUP(tv_group()), row = g / groups;
  const uint first = (g - row * groups) * (VECTORS / LIST) * apart;
  KEY k[VECTORS];
  uint at[VECTORS];
  [[unroll]] for (uint v = 0u; v < VECTORS; v++) {
    const uint b = first + v / LIST * apart;
    const bool exists = both(row < rows, b < blocks);
    const uint from = mix(rows * blocks, row * blocks + b, exists) * BLOCK;
    load_pairs(from + v % LIST * LANES, exists, k[v], at[v]);
  }
  NETWORK(k, at)
  const uint to = mix(rows * blocks, row * blocks + first, row < rows) * BLOCK;
  const uint kept = max(LIST, 2u);
  Stored stored[kept / 2u];
  [[unroll]] for (uint v = 0u; v < kept; v += 2u) {
    stored[v / 2u] = store_pairs(to + v * LANES, k[v], at[v], k[v + 1u], at[v + 1u]);
  }
  SIMD_WAIT
  [[unroll]] for (uint v = 0u; v < kept; v += 2u) release_pairs(stored[v / 2u], k[v], k[v + 1u]);
}
