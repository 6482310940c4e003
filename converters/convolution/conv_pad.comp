// y[z][c][rh][rw][h][w] = x[z][c][h * stride_h + rh - pad_h][w * stride_w + rw - pad_w], with DEPTH
// y[z][c][rd][rh][rw][d][h][w] likewise, zero outside, between the elements of a spread out input,
// and for c >= ic_count: one plane for each phase of the stride, so that every tap reads neighbours
// for neighbouring outputs.
//
// x: any strides. Element (z, c, i) of y at (z * channels + c) * plane + i, i below `count` counts
// pairs. Two elements an invocation, stored as one.
// Grid: (ceil(count / LOCAL_X), channels, z).

#include "conv_geometry.glsl"
#include "conv_pairs.glsl"
#include "conv_zero.glsl"

float element(uint base, uint i, bool in_channels) {
  uint r = i, rh = 0u, rw = 0u;
#if PHASES
  const uint phase = conv_quotient(r, phase_size);
  r -= phase * phase_size;
  rh = conv_quotient(phase, phases_w);
  rw = phase - rh * phases_w;
#endif
#ifdef DEPTH
  const uint rd = rh / phases_h, d = conv_quotient(r, slab);
  rh -= rd * phases_h;
  r -= d * slab;
  uint id;
  in_channels = conv_source(int(d * stride_d + rd) - pad_d, lhs_d, in_d, id) && in_channels;
  base += id * x_d;
#endif
  const uint h = conv_quotient(r, pitch), w = r - h * pitch;
  uint ih, iw;
  const bool rows = conv_source(int(h * stride_h + rh) - pad_h, lhs_h, in_h, ih);
  const bool cols = conv_source(int(w * stride_w + rw) - pad_w, lhs_w, in_w, iw);
  float v = 0.0;
  if (rows && cols && in_channels) v = conv_x(base + ih * x_h + iw * x_w);
  return v;
}

void main() {
  const uint pair = gl_WorkGroupID.x * LOCAL_X + gl_LocalInvocationID.x;
  const uint c = gl_WorkGroupID.y, z = gl_WorkGroupID.z;
  if (pair >= count) return;
  const uint base = z * x_z + c * x_c;
  const bool in_channels = c < ic_count;
  const vec2 v =
      vec2(element(base, 2u * pair, in_channels), element(base, 2u * pair + 1u, in_channels));
  const uint to = (z * gl_NumWorkGroups.y + c) * plane + 2u * pair;
  conv_store2(y_ptr, to, v);
}
