// The weight of a convolution in the order in which a subgroup holds its 16x16 fragments (coopmat),
// for conv_matrix.comp: y[g][m / 16][k_steps][PIECES][32] uvec4s, zeros past oc_count
// and past the last k.
//
// k runs over chunks of 8 input channels of one tap, FLAT: over (ic, kh, kw). w: any strides.
// BYTES: w is integers, W_OFFSET less each; chunks are of 16 channels, and fragments of 16x32.
// DYNAMIC_SCALE: times the power of two of its output channel (conv_matrix_rows.comp). With another
// count of components an invocation than 8 a fragment is its 16x16 matrix. One subgroup a fragment.
// Grid: ceil(fragments / 8); local 256.

#define LEAST_PIECES 1
#include "pack_fragment.glsl"
#include "conv_geometry.glsl"

float weight(uint g, uint m, uint k) {
#if FLAT
  const uint ic = k / CONV_TAPS, tap = k - ic * CONV_TAPS;
#else
  const uint of_tap = ic_chunks * (NUMBERS), tap = k / of_tap, ic = k - tap * of_tap;
#endif
  if (m >= oc_count || ic >= ic_count || tap >= CONV_TAPS) return 0.0;
  const uint at = w_0 + g * w_g + m * w_oc + CONV_WEIGHT(ic, conv_tap(tap));
#if BYTES
  return float(int(w_raw(at)) - W_OFFSET);
#else
  return float(w_raw(at));
#endif
}

void main() {
  const uint lane = gl_SubgroupInvocationID, tile = tv_group() * 8 + gl_SubgroupID;
  const bool valid = tile < fragments;
  const uint line = tile / k_steps, g = line / m_lines;
  const uint m = (line - g * m_lines) * 16 + lane / 2,
      k = ((tile - line * k_steps) * 2 + lane % 2) * NUMBERS;
  float v[NUMBERS];
  FOR(e, NUMBERS) {
    v[e] = 0.0;
    if (valid) v[e] = weight(g, m, k + e);
  }
#if DYNAMIC_SCALE
  const float up = valid && m < oc_count ? rows_raw((g * oc_count + m) * 4u + 3u) : 0.0;
  FOR(e, NUMBERS) v[e] *= up;
#endif
  PACK_FRAGMENT(v, valid, 0u, tile, lane)
}
