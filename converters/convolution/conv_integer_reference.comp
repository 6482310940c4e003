// y[n][oc][o] = sum over ic, k of (x[n][g * ic_count + ic][o * stride - pad + k * dil] - x_zero) *
// (w[oc][ic][k] - w_zero[oc]), in up to three dimensions (d, h, w): 8-bit integers, sums of 32 bits
// that wrap, what is padded adds nothing. One output an invocation.
//
// x, w: any strides. Grid: one invocation for each output.

#include "conv_geometry.glsl"

void main() {
  const uint i = tv_group() * LOCAL_X + gl_LocalInvocationID.x;
  if (i >= total) return;
  uint q = i / out_w, r = q;
  const int ow = int(i - q * out_w);
  q = r / out_h;
  const int oh = int(r - q * out_h);
  r = q / out_d;
  const int od = int(q - r * out_d);
  q = r / oc_count;
  const uint oc = r - q * oc_count, g = q % groups, n = q / groups;

  int x_zero = 0, w_zero = 0;
#if X_ZERO
  x_zero = int(x_zero_raw(0u));
#endif
#if W_ZERO
  w_zero = int(w_zero_raw((g * oc_count + oc) * w_zero_step));
#endif
  const uint x_base = n * x_n + g * ic_count * x_c, w_base = w_0 + g * w_g + oc * w_oc;
  int sum = 0;
  for (uint ic = 0u; ic < ic_count; ic++) {
    for (uint kd = 0u; kd < k_d; kd++) {
      uint id, ih, iw;
      if (!conv_source(od * int(stride_d) + int(kd * dil_d) - pad_d, lhs_d, in_d, id)) continue;
      for (uint kh = 0u; kh < k_h; kh++) {
        if (!conv_source(oh * int(stride_h) + int(kh * dil_h) - pad_h, lhs_h, in_h, ih)) continue;
        for (uint kw = 0u; kw < k_w; kw++) {
          if (!conv_source(ow * int(stride_w) + int(kw * dil_w) - pad_w, lhs_w, in_w, iw)) continue;
          sum += (int(x_raw(x_base + ic * x_c + id * x_d + ih * x_h + iw * x_w)) - x_zero) *
                 (int(w_raw(w_base + ic * w_ic + kd * w_d + kh * w_h + kw * w_w)) - w_zero);
        }
      }
    }
  }
  y_store(i, sum);
}
