// y[p][oc][k] = (G w[oc][k] G^T)[p], zero for k >= ic_count: windows of 3x3 weights in Winograd's
// points.
//
// w: any strides. y: fp32.
// Grid: (ceil(k_padded / LOCAL_X), oc_count).

#include "conv_zero.glsl"
#include "winograd.glsl"

void main() {
  const uint k = gl_WorkGroupID.x * LOCAL_X + gl_LocalInvocationID.x, oc = gl_WorkGroupID.y;
  if (k >= k_padded) return;
  const bool inside = k < ic_count;
  const uint from = w_0 + oc * w_oc + (inside ? k : 0u) * w_ic;
  float rows[3][WINOGRAD_IN];
  [[unroll]] for (uint h = 0u; h < 3u; h++) {
    float g[3];
    [[unroll]] for (uint i = 0u; i < 3u; i++) {
      g[i] = inside ? conv_w(from + h * w_h + i * w_w, oc) : 0.0;
    }
    winograd_weight(g, rows[h]);
  }
  const uint to = oc * k_padded + k, point = oc_count * k_padded;
  [[unroll]] for (uint j = 0u; j < WINOGRAD_IN; j++) {
    float t[WINOGRAD_IN];
    winograd_weight(float[](rows[0][j], rows[1][j], rows[2][j]), t);
    [[unroll]] for (uint i = 0u; i < WINOGRAD_IN; i++) {
      y_raw_store((i * WINOGRAD_IN + j) * point + to, t[i]);
    }
  }
}
