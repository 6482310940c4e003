// Orders each block whose elements are a bitonic sequence, in its place, on CPU drivers
// (sort_simd.glsl). NETWORK(k, at): the comparisons. A block a workgroup, of `total`, in a flat
// grid.

#include "sort_blocks_simd.glsl"

void main() {
  const uint g = min(UNIFORM_GROUP(tv_group()), total), from = g * BLOCK;
  KEY k[VECTORS];
  uint at[VECTORS];
  [[unroll]] for (uint v = 0u; v < VECTORS; v++) load_pairs(from + v * LANES, true, k[v], at[v]);
  NETWORK(k, at)
  Stored stored[VECTORS / 2u];
  [[unroll]] for (uint v = 0u; v < VECTORS; v += 2u) {
    stored[v / 2u] = store_pairs(from + v * LANES, k[v], at[v], k[v + 1u], at[v + 1u]);
  }
  SIMD_WAIT
  [[unroll]] for (uint v = 0u; v < VECTORS; v += 2u) {
    release_pairs(stored[v / 2u], k[v], k[v + 1u]);
  }
}
