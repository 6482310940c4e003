// y[z][k][p] = what output pixel p reads for k = (ic, [kd,] kh, kw), zero where that is padding,
// and for k >= k_count or p >= pixels: the matrix of a convolution with few input channels.
//
// x: any strides. y: row k of matrix z at (z * rows + k) * pitch; pitch is even. Two elements an
// invocation, stored as one.
// Grid: (pitch / (2 * LOCAL_X), rows, z).

#include "conv_geometry.glsl"
#include "conv_pairs.glsl"
#include "conv_zero.glsl"

float element(uint base, uint p, uint kd, uint kh, uint kw, bool in_rows) {
#ifdef DEPTH
  const uint od = conv_quotient(p, out_h * out_w), image = od * out_h;
  uint id;
  in_rows = conv_source(int(od * stride_d + kd * dil_d) - pad_d, lhs_d, in_d, id) && in_rows;
  in_rows = in_rows && od < out_d;
  base += id * x_d;
  p -= image * out_w;
#endif
  const uint oh = conv_quotient(p, out_w), ow = p - oh * out_w;
  uint ih, iw;
  const bool rows = conv_source(int(oh * stride_h + kh * dil_h) - pad_h, lhs_h, in_h, ih);
  const bool cols = conv_source(int(ow * stride_w + kw * dil_w) - pad_w, lhs_w, in_w, iw);
  float v = 0.0;
  if (rows && cols && in_rows && oh < out_h) v = conv_x(base + ih * x_h + iw * x_w);
  return v;
}

void main() {
  const uint p = 2u * (gl_WorkGroupID.x * LOCAL_X + gl_LocalInvocationID.x);
  const uint k = gl_WorkGroupID.y, z = gl_WorkGroupID.z;
  if (p >= pitch) return;
#ifdef DEPTH
  const uint image = k_h * k_w, taps = k_d * image, ic = k / taps, kd = (k - ic * taps) / image;
  const uint tap = k - ic * taps - kd * image;
#else
  const uint taps = k_h * k_w, ic = k / taps, kd = 0u, tap = k - ic * taps;
#endif
  const uint kh = tap / k_w, kw = tap - kh * k_w;
  const uint base = z * x_z + ic * x_c;
  const bool in_rows = k < k_count;
  const vec2 v = vec2(element(base, p, kd, kh, kw, in_rows),
      element(base, p + 1u, kd, kh, kw, in_rows));
  conv_store2(y_ptr, (z * gl_NumWorkGroups.y + k) * pitch + p, v);
}
