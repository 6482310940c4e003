// The last launch of softmax.comp for long rows on CPU drivers: y of the row's totals
// (softmax_merge.comp). Grid: (blocks, 1, rows).

#include "row_block.glsl"

float result(float shifted, float by) {
#if LOG
  return shifted - by;
#else
  return tv_exp(shifted) * by;
#endif
}

void main() {
  const uint b = simd_uniform(gl_WorkGroupID.x), row = simd_uniform(gl_WorkGroupID.z);
  float v[PAIRS][2];
  load_block(b, row * count, v);
  const float peak = totals_raw(2u * row), by = totals_raw(2u * row + 1u);
  simd_held held[PAIRS];
  [[unroll]] for (uint q = 0u; q < PAIRS; q++) {
    held[q] = y_simd_store2(row * count + column_of(b, q), y_T(result(v[q][0] - peak, by)),
                            y_T(result(v[q][1] - peak, by)));
  }
  SIMD_WAIT
  [[unroll]] for (uint q = 0u; q < PAIRS; q++) y_simd_release(held[q]);
}
