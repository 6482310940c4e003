// reduce.comp on CPU drivers for runs of `count` neighbours, each an output's elements: y[b, row]
// of block b of a run (row_block.glsl), for a second step to combine. Grid: (blocks, 1, rows).

#include "reduce_combine.glsl"
#include "row_block.glsl"

/// Of all lanes. Written out, as simd_sum is.
ACC over_lanes(ACC v) {
  if (LANES > 8u) v = combine(v, subgroupShuffleXor(v, 8u));
  v = combine(v, subgroupShuffleXor(v, 4u));
  v = combine(v, subgroupShuffleXor(v, 2u));
  return combine(v, subgroupShuffleXor(v, 1u));
}

void main() {
  const uint b = simd_uniform(gl_WorkGroupID.x), row = simd_uniform(gl_WorkGroupID.z);
  float v[PAIRS][2];
  load_block(b, row * count, v);
  ACC acc = ACC(INIT);
  [[unroll]] for (uint q = 0u; q < PAIRS; q++) {
    [[unroll]] for (uint h = 0u; h < 2u; h++) {
      acc = combine(acc, mix(v[q][h], ACC(INIT), repeats(b, q, h)));
    }
  }
  acc = over_lanes(acc);
  if (gl_SubgroupInvocationID == 0u) y_store(b * rows + row, acc);
}
