// y[g][m][k] = the weight of output channel m of group g for step k, zero past the end, in fp32, on
// CPU drivers (simd.glsl).
//
// TAPS_FIRST: k = tap * channels + ic, else k = ic * taps + tap. w: strides may be negative. TAPS >
// 0: the window's elements and then the input channels are neighbours in w, in fp32, channels go in
// runs of 2 LANES. A workgroup transposes such a run.
//   Grid: (channels / (2 LANES), oc_count, groups).
// Else a workgroup writes RUNS times 2 LANES neighbours of a row, past its end the last ones again,
// or, where rows are not WHOLE multiples of that, a row.
//   Grid: (ceil(k_padded / (2 LANES RUNS)), oc_count, groups).

#include "conv_pairs.glsl"

#if TAPS

void main() {
  const uint m = simd_uniform(gl_WorkGroupID.y), g = simd_uniform(gl_WorkGroupID.z);
  const uint first = simd_uniform(gl_WorkGroupID.x) * (2u * LANES);
  tv_ref_f32 from = simd_at(w_ptr, g * w_g + m * w_oc + min(first, ic_count - 2u * LANES) * TAPS);
  vec4 x[2u * LANES * TAPS / 4u];
  SIMD_UNROLL for (uint i = 0u; i < 2u * LANES * TAPS / 4u; i++) x[i] = simd_vec4(from, i);
  const uint lane = gl_SubgroupInvocationID;
  const uint to = (g * oc_count + m) * k_padded + first;
  SIMD_UNROLL for (uint tap = 0u; tap < TAPS; tap++) {
    float a = 0.0, b = 0.0;
    SIMD_UNROLL for (uint i = 0u; i < LANES; i++) {
      const uint left = i * TAPS + tap, right = left + LANES * TAPS;
      const bool here = lane == i && first < ic_count;
      a = mix(a, x[left / 4u][left % 4u], here);
      b = mix(b, x[right / 4u][right % 4u], here);
    }
    simd_release(simd_store2(simd_at(y_ptr, to + tap * channels), a, b));
  }
}

#else

#include "conv_zero.glsl"

float element(uint row, uint oc, uint k) {
#ifdef DEPTH
  const uint taps = k_d * k_h * k_w;
#else
  const uint taps = k_h * k_w;
#endif
#if TAPS_FIRST
  uint tap = conv_quotient(k, channels);
  const uint ic = k - tap * channels;
#else
  const uint ic = conv_quotient(k, taps);
  uint tap = k - ic * taps;
#endif
  const bool inside = ic < ic_count && tap < taps;
#ifdef DEPTH
  const uint kd = conv_quotient(tap, k_h * k_w);
  row += inside ? kd * w_d : 0u;
  tap -= kd * (k_h * k_w);
#endif
  const uint kh = conv_quotient(tap, k_w), kw = tap - kh * k_w;
  const float v = conv_w(row + (inside ? ic * w_ic + kh * w_h + kw * w_w : 0u), oc);
  return inside ? v : 0.0;
}

void main() {
  const uint m = gl_WorkGroupID.y, g = gl_WorkGroupID.z, lane = gl_SubgroupInvocationID;
  const uint from = w_0 + g * w_g + m * w_oc, oc = g * oc_count + m, to = oc * k_padded;
#if WHOLE
  for (uint i = 0u; i < RUNS; i++) {
    const uint k = min((gl_WorkGroupID.x * RUNS + i) * (2u * LANES), k_padded - 2u * LANES);
    simd_release(simd_store2(simd_at(y_ptr, to + k), element(from, oc, k + lane),
                             element(from, oc, k + LANES + lane)));
  }
#else
  for (uint k = lane; k < k_padded; k += LANES) y_raw_store(to + k, element(from, oc, k));
#endif
}

#endif
