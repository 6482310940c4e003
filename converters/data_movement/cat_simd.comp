// cat_part.comp on CPU drivers (simd.glsl), where an input has `count` neighbours for each
// slab of the result, at least 2 LANES floats: in blocks (row_block.glsl).
// Grid: (blocks, 1, slabs).

#include "row_block.glsl"

void main() {
  const uint b = simd_uniform(gl_WorkGroupID.x), o = simd_uniform(gl_WorkGroupID.z);
  float v[PAIRS][2];
  load_block(b, o * count, v);
  simd_held held[PAIRS];
  [[unroll]] for (uint q = 0u; q < PAIRS; q++) {
    held[q] = y_simd_store2(o * out_slab + from + column_of(b, q), y_T(v[q][0]), y_T(v[q][1]));
  }
  SIMD_WAIT
  [[unroll]] for (uint q = 0u; q < PAIRS; q++) y_simd_release(held[q]);
}
