// The first launch of row_norm.comp for long rows on CPU drivers: sums[2 i] is the mean of block i,
// sums[2 i + 1] the sum of its squared distances from that; with RMS 0 and the sum of squares. A
// row has group_channels segments of `blocks` blocks (row_block.glsl).
// Grid: (blocks, group_channels, rows).

#include "row_block.glsl"

void main() {
  const uint b = simd_uniform(gl_WorkGroupID.x);
  const uint segment = simd_uniform(gl_WorkGroupID.z) * group_channels +
                       simd_uniform(gl_WorkGroupID.y);
  float v[PAIRS][2], mean = 0.0, spread = 0.0;
  load_block(b, segment * count, v);
#if !RMS
  [[unroll]] for (uint q = 0u; q < PAIRS; q++) {
    mean += mix(v[q][0], 0.0, repeats(b, q, 0u)) + mix(v[q][1], 0.0, repeats(b, q, 1u));
  }
  mean = tv_div(simd_sum(mean), float(own_of(b)));
#endif
  [[unroll]] for (uint q = 0u; q < PAIRS; q++) {
    [[unroll]] for (uint h = 0u; h < 2u; h++) {
      const float d = mix(v[q][h] - mean, 0.0, repeats(b, q, h));
      spread = fma(d, d, spread);
    }
  }
  spread = simd_sum(spread);
  if (gl_SubgroupInvocationID == 0u) {
    sums_store(2u * (segment * blocks + b), mean);
    sums_store(2u * (segment * blocks + b) + 1u, spread);
  }
}
