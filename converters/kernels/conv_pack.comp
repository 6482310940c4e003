// y[g][m][k] = the weight of output channel m of group g for step k, zero past the end, in fp32.
//
// TAPS_FIRST: k = tap * channels + ic, else k = ic * taps + tap. w: strides may be negative.
// Grid: one invocation for each of `total` elements.

void main() {
  const uint i = tv_group() * LOCAL_X + gl_LocalInvocationID.x;
  if (i >= total) return;
  const uint row = i / k_padded, k = i - row * k_padded, g = row / oc_count, m = row - g * oc_count;
  const uint taps = k_h * k_w;
#if TAPS_FIRST
  const uint tap = k / channels, ic = k - tap * channels;
#else
  const uint ic = k / taps, tap = k - ic * taps;
#endif
  const uint kh = tap / k_w, kw = tap - kh * k_w;
  float v = 0.0;
  if (ic < ic_count && tap < taps) {
    v = float(w_raw(w_0 + g * w_g + m * w_oc + ic * w_ic + kh * w_h + kw * w_w));
  }
  y_raw_store(i, v);
}
