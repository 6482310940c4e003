// row_norm.comp for rows of `count` neighbours on CPU drivers (simd.glsl): a row per workgroup,
// lanes along it, in BLOCKS blocks of 2 LANES. The last block moves back to the row's end and
// repeats some of the one before. Grid: (rows, 1, 1).

const uint WIDE = 2u * LANES;

/// Whether element (h, lane) of block b is one that the block before has, too.
bool repeats(uint b, uint h) {
  const uint repeated = BLOCKS * WIDE - count;
  return b == BLOCKS - 1u && h * LANES + gl_SubgroupInvocationID < repeated;
}

/// Where block b begins in a row.
uint column_of(uint b) { return b == BLOCKS - 1u ? count - WIDE : b * WIDE; }

/// The row that begins at `start`, less its mean (RMS: as it is); gives the mean.
float load_row(uint start, out float v[BLOCKS][2]) {
  float sum = 0.0;
  [[unroll]] for (uint b = 0u; b < BLOCKS; b++) {
    [[unroll]] for (uint h = 0u; h < 2u; h++) {
      v[b][h] = x_simd(start + column_of(b) + h * LANES);
      sum += mix(v[b][h], 0.0, repeats(b, h));
    }
  }
#if RMS
  return 0.0;
#else
  const float center = tv_div(simd_sum(sum), float(count));
  [[unroll]] for (uint b = 0u; b < BLOCKS; b++) {
    [[unroll]] for (uint h = 0u; h < 2u; h++) v[b][h] -= center;
  }
  return center;
#endif
}

/// 1 / the square root of the mean square.
float inverse_of(float v[BLOCKS][2]) {
  float spread = 0.0;
  [[unroll]] for (uint b = 0u; b < BLOCKS; b++) {
    [[unroll]] for (uint h = 0u; h < 2u; h++) {
      const float d = mix(v[b][h], 0.0, repeats(b, h));
      spread = fma(d, d, spread);
    }
  }
  return tv_rsqrt(tv_div(simd_sum(spread), float(count)) + eps);
}

simd_held store_block(uint start, uint column, float left, float right) {
#if WEIGHT
  left *= w_simd(column);
  right *= w_simd(column + LANES);
#endif
#if BIAS
  left += b_simd(column);
  right += b_simd(column + LANES);
#endif
  return y_simd_store2(start + column, left, right);
}

void main() {
  const uint row = simd_uniform(gl_WorkGroupID.x), start = row * count;
  float v[BLOCKS][2];
  const float center = load_row(start, v), inverse = inverse_of(v);
  simd_held held[BLOCKS];
  [[unroll]] for (uint b = 0u; b < BLOCKS; b++) {
    held[b] = store_block(start, column_of(b), v[b][0] * inverse, v[b][1] * inverse);
  }
  SIMD_WAIT
  [[unroll]] for (uint b = 0u; b < BLOCKS; b++) y_simd_release(held[b]);

  if (gl_SubgroupInvocationID == 0u) {
#if MEAN
    mean_store(row, center);
#endif
#if RSTD
    rstd_store(row, inverse);
#endif
  }
}
