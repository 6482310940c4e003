// The first launch of softmax.comp for long rows on CPU drivers: sums[2 i] is the largest element
// of block i (row_block.glsl), sums[2 i + 1] the sum of the exponentials of what they lie below it.
// Grid: (blocks, 1, rows).

#include "row_block.glsl"

void main() {
  const uint b = simd_uniform(gl_WorkGroupID.x), row = simd_uniform(gl_WorkGroupID.z);
  const float least = uintBitsToFloat(0xff800000u);
  float v[PAIRS][2], peak = least, sum = 0.0;
  load_block(b, row * count, v);
  [[unroll]] for (uint q = 0u; q < PAIRS; q++) peak = max(peak, max(v[q][0], v[q][1]));
  peak = simd_max(peak);
  const float from = peak == least ? 0.0 : peak;  // a block may have no more than that
  [[unroll]] for (uint q = 0u; q < PAIRS; q++) {
    [[unroll]] for (uint h = 0u; h < 2u; h++) {
      sum += mix(tv_exp(v[q][h] - from), 0.0, repeats(b, q, h));
    }
  }
  sum = simd_sum(sum);
  if (gl_SubgroupInvocationID == 0u) {
    sums_store(2u * (row * blocks + b), peak);
    sums_store(2u * (row * blocks + b) + 1u, sum);
  }
}
