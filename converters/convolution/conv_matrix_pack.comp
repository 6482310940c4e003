// The weight of a convolution in the order in which a subgroup holds its 16x16 fragments (coopmat),
// for conv_matrix.comp: y[g][m / 16][k_steps][PIECES][32] units of 16 bytes, zeros past oc_count
// and past the last k.
//
// k runs over chunks of 8 input channels of one tap, FLAT: over (ic, kh, kw). w: any strides.
// DYNAMIC_SCALE: times the power of two of its output channel (conv_matrix_rows.comp). With another
// count of components an invocation than 8 a fragment is its 16x16 matrix. One subgroup a fragment.
// Grid: ceil(fragments / 8); local 256.

shared uvec4 sh[8][PIECES][32];

#define LEAST_PIECES 1
#include "matrix.glsl"

float weight(uint g, uint m, uint k) {
#if FLAT
  const uint ic = k / (k_h * k_w), tap = k - ic * (k_h * k_w);
#else
  const uint chunk = k / 8, tap = chunk / ic_chunks, ic = k - tap * ic_chunks * 8;
#endif
  const uint kh = tap / k_w, kw = tap - kh * k_w;
  if (m >= oc_count || ic >= ic_count || kh >= k_h) return 0.0;
  return float(w_raw(w_0 + g * w_g + m * w_oc + ic * w_ic + kh * w_h + kw * w_w));
}

void main() {
  const uint lane = gl_SubgroupInvocationID, tile = tv_group() * 8 + gl_SubgroupID;
  const bool valid = tile < fragments;
  const uint line = tile / k_steps, g = line / m_lines;
  const uint m = (line - g * m_lines) * 16 + lane / 2, k = (tile - line * k_steps) * 16 + lane % 2 * 8;
  float v[8];
  FOR(e, 8) {
    v[e] = 0.0;
    if (valid) v[e] = weight(g, m, k + e);
  }
#if DYNAMIC_SCALE
  const float up = valid && m < oc_count ? rows_raw((g * oc_count + m) * 4u + 3u) : 0.0;
  FOR(e, 8) v[e] *= up;
#endif
#if FLOATS
  Chunk c = Chunk(vec4(v[0], v[1], v[2], v[3]), vec4(v[4], v[5], v[6], v[7]));
  FOR(p, PIECES) sh[gl_SubgroupID][p][lane] = split_chunk(c, p);
#else
  uvec4 c;
  FOR(e, 4) c[e] = TO_16(v[2 * e]) | TO_16(v[2 * e + 1]) << 16;
  sh[gl_SubgroupID][0][lane] = c;
#endif
  subgroupBarrier();
  FOR(p, PIECES) {
    FragA f;
    coopMatLoad(f, sh[gl_SubgroupID][p], 0, 2, gl_CooperativeMatrixLayoutRowMajor);
    uvec4 r = sh[gl_SubgroupID][p][lane];
    if (f.length() == 8) {
      FOR(e, 4) r[e] = packFloat2x16(f16vec2(f[2 * e], f[2 * e + 1]));
    }
    if (valid) tv_ref_u32x4(y_ptr).v[(tile * PIECES + p) * 32 + lane] = r;
  }
}
