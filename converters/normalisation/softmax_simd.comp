// softmax.comp for rows of `count` neighbours on CPU drivers (simd.glsl): a row per workgroup,
// lanes along it, in BLOCKS blocks of 2 LANES. The last block moves back to the row's end and
// repeats some of the one before. Grid: (rows, 1, 1).

const uint WIDE = 2u * LANES;

float result(float e, float by) {
#if LOG
  return e - by;
#else
  return e * by;
#endif
}

void main() {
  const uint start = simd_uniform(gl_WorkGroupID.x) * count;
  const uint last = count - WIDE, repeated = (BLOCKS - 1u) * WIDE - last;
  float v[BLOCKS][2];
  float peak = uintBitsToFloat(0xff800000u);
  [[unroll]] for (uint b = 0u; b < BLOCKS; b++) {
    const uint at = start + (b == BLOCKS - 1u ? last : b * WIDE);
    v[b][0] = float(x_simd(at));
    v[b][1] = float(x_simd(at + LANES));
    peak = max(peak, max(v[b][0], v[b][1]));
  }
  peak = simd_max(peak);

  float sum = 0.0;
  [[unroll]] for (uint b = 0u; b < BLOCKS; b++) {
    [[unroll]] for (uint h = 0u; h < 2u; h++) {
      const float shifted = v[b][h] - peak, e = tv_exp(shifted);
      const bool again = b == BLOCKS - 1u && h * LANES + gl_SubgroupInvocationID < repeated;
      sum += mix(e, 0.0, again);
#if LOG
      v[b][h] = shifted;
#else
      v[b][h] = e;
#endif
    }
  }
  sum = simd_sum(sum);
#if LOG
  const float by = tv_log(sum);
#else
  const float by = tv_div(1.0, sum);
#endif
  simd_held held[BLOCKS];
  [[unroll]] for (uint b = 0u; b < BLOCKS; b++) {
    const uint at = start + (b == BLOCKS - 1u ? last : b * WIDE);
    held[b] = y_simd_store2(at, y_T(result(v[b][0], by)), y_T(result(v[b][1], by)));
  }
  SIMD_WAIT
  [[unroll]] for (uint b = 0u; b < BLOCKS; b++) y_simd_release(held[b]);
}
