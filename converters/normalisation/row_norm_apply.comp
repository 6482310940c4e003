// The last launch of row_norm.comp for long rows on CPU drivers: y of the row's moments
// (row_norm_merge.comp). weight and bias: one a channel, with CHANNELS, or one a column.
// Grid: (blocks, group_channels, rows).

#include "row_block.glsl"

/// Of a workgroup: all of a channel's elements have the same.
float weight_of_channel = 1.0, bias_of_channel = 0.0;

/// Sets them, for `channel` of the row's group.
void find_channel(uint row, uint channel) {
#if CHANNELS
  const uint i = (row - row / groups * groups) * group_channels + channel;
#if WEIGHT
  weight_of_channel = w_load(i);
#endif
#if BIAS
  bias_of_channel = b_load(i);
#endif
#endif
}

float weighted(float normalised, uint column) {
#if CHANNELS
  return normalised * weight_of_channel + bias_of_channel;
#else
#if WEIGHT
  normalised *= w_simd(column);
#endif
#if BIAS
  normalised += b_simd(column);
#endif
  return normalised;
#endif
}

void main() {
  const uint b = simd_uniform(gl_WorkGroupID.x), row = simd_uniform(gl_WorkGroupID.z);
  const uint start = (row * group_channels + simd_uniform(gl_WorkGroupID.y)) * count;
  float v[PAIRS][2];
  load_block(b, start, v);
  const float mean = moments_raw(2u * row), inverse = moments_raw(2u * row + 1u);
  find_channel(row, gl_WorkGroupID.y);
  simd_held held[PAIRS];
  [[unroll]] for (uint q = 0u; q < PAIRS; q++) {
    const uint column = column_of(b, q);
    const float left = weighted((v[q][0] - mean) * inverse, column);
    const float right = weighted((v[q][1] - mean) * inverse, column + LANES);
    held[q] = y_simd_store2(start + column, left, right);
  }
  SIMD_WAIT
  [[unroll]] for (uint q = 0u; q < PAIRS; q++) y_simd_release(held[q]);
}
