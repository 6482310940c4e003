// Sorts blocks of a line by (key, position) on CPU drivers (sort_simd.glsl): those of
// sort_tile.comp.
//
// x: lines of `count` elements, `inner` apart; `rows` lines of `blocks` blocks each in keys and at.
// Each lane has VECTORS neighbours in order of the block's. NETWORK(k, at): the comparisons.
// WHOLE: lines have LANES neighbours in memory at least, and a vector that would pass the end moves
// back. A block a workgroup, in a flat grid; one past the end sorts the last block again.

#include "sort_key.glsl"
#include "sort_simd.glsl"

/// A vector of the line `row` from place `want` on.
void load(uint row, uint want, out KEY k, out uint i) {
#if WHOLE
  const uint base = min(want, count - LANES);
  i = base + gl_SubgroupInvocationID;
  const bool exists = i >= want;
  k = key_of(simd_load(simd_at(x_ptr, row * count + base)));
#else
  i = want + gl_SubgroupInvocationID;
  const bool exists = i < count;
  const uint outer = row / inner;
  k = key_of(x_load((outer * count + min(i, count - 1u)) * inner + (row - outer * inner)));
#endif
  k = exists ? k : KEY_MOST;
  i = exists ? i : 0xffffffffu;
}

/// Two neighbours of each lane in one store.
simd_held pair_of(tv_ref_i32 p, uint i, uint a, uint b) {
  const uint lane = simd_uniform_small(gl_SubgroupInvocationID);
  const uint64_t at = uint64_t(p) + uint64_t(i + lane * VECTORS) * 4ul;
  return simd_held(SIMD_CHECKED(at, 8u), packUint2x32(uvec2(a, b)));
}

void main() {
  const uint g = min(UNIFORM_GROUP(tv_group()), rows * blocks - 1u);
  const uint row = g / blocks, b = g - row * blocks, to = g * BLOCK;
  KEY k[VECTORS];
  uint at[VECTORS];
  [[unroll]] for (uint v = 0u; v < VECTORS; v++) load(row, b * BLOCK + v * LANES, k[v], at[v]);
  NETWORK(k, at)
  simd_held keys_held[VECTORS / 2u], at_held[VECTORS / 2u];
  [[unroll]] for (uint v = 0u; v < VECTORS / 2u; v++) {
#if !INT64_KEY
    keys_held[v] = pair_of(keys_ptr, to + 2u * v, k[2u * v], k[2u * v + 1u]);
#endif
    at_held[v] = pair_of(at_ptr, to + 2u * v, at[2u * v], at[2u * v + 1u]);
  }
  SIMD_WAIT
  [[unroll]] for (uint v = 0u; v < VECTORS / 2u; v++) {
#if INT64_KEY
    const uint first = to + gl_SubgroupInvocationID * VECTORS + 2u * v;
    keys_raw_store(first, k[2u * v]);
    keys_raw_store(first + 1u, k[2u * v + 1u]);
#else
    simd_release(keys_held[v]);
#endif
    simd_release(at_held[v]);
  }
}
