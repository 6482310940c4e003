// row_norm.comp for rows of `count` neighbours on CPU drivers (simd.glsl): a row per workgroup,
// lanes along it, in BLOCKS blocks of 2 LANES. The last block moves back to the row's end and
// repeats some of the one before. Grid: (rows, 1, 1).

const uint WIDE = 2u * LANES;

void main() {
  const uint row = lane_uniform(gl_WorkGroupID.x), start = row * count;
  const uint last = count - WIDE, repeated = (BLOCKS - 1u) * WIDE - last;
  const uint lane = gl_SubgroupInvocationID;
  float v[BLOCKS][2];
  float center = 0.0;
  [[unroll]] for (uint b = 0u; b < BLOCKS; b++) {
    const uint at = start + (b == BLOCKS - 1u ? last : b * WIDE);
    [[unroll]] for (uint h = 0u; h < 2u; h++) {
      v[b][h] = x_lane(at + h * LANES);
      center += mix(v[b][h], 0.0, b == BLOCKS - 1u && h * LANES + lane < repeated);
    }
  }
#if RMS
  center = 0.0;
#else
  center = tv_div(lane_sum(center), float(count));
#endif

  float spread = 0.0;
  [[unroll]] for (uint b = 0u; b < BLOCKS; b++) {
    [[unroll]] for (uint h = 0u; h < 2u; h++) {
      v[b][h] -= center;
      const float d = mix(v[b][h], 0.0, b == BLOCKS - 1u && h * LANES + lane < repeated);
      spread = fma(d, d, spread);
    }
  }
  const float inverse = tv_rsqrt(tv_div(lane_sum(spread), float(count)) + eps);

  lane_held held[BLOCKS];
  [[unroll]] for (uint b = 0u; b < BLOCKS; b++) {
    const uint column = b == BLOCKS - 1u ? last : b * WIDE;
    float r = v[b][0] * inverse, s = v[b][1] * inverse;
#if WEIGHT
    r *= w_lane(column);
    s *= w_lane(column + LANES);
#endif
#if BIAS
    r += b_lane(column);
    s += b_lane(column + LANES);
#endif
    held[b] = y_lane_store2(start + column, r, s);
  }
  LANE_WAIT
  [[unroll]] for (uint b = 0u; b < BLOCKS; b++) y_lane_release(held[b]);

  if (lane == 0u) {
#if MEAN
    mean_store(row, center);
#endif
#if RSTD
    rstd_store(row, inverse);
#endif
  }
}
