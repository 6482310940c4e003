// An operand of a matrix product in the order in which a subgroup holds its 16x16 fragments, so
// that a fragment is one load of 16 bytes by each invocation.
//
// x: any strides, s_span along m (SIDE_A) or n, s_k along k. y: [z][spans /
// 16][k_steps][PIECES][32] uvec4s, zeros past spans and k_count. With another count of
// components an invocation than 8 a fragment is its 16x16 matrix, [span][k], of the same size.
// PAIRED: two steps of k deal their elements out as direct_load.glsl says. One subgroup a fragment.
// Grid: (ceil(fragments / 8), 1, z); local 256.

// QUANTISED: x is a quantised matrix (quantised_words.glsl), k_count a multiple of 16, as groups
// are.

#include "batch.glsl"
#if QUANTISED
#include "quantised_words.glsl"

/// Elements k … k + 7 of row n, k a multiple of 8, in float32.
void eight_of(uint n, uint k, out float v[8]) {
#if WHOLE_ROWS
  const uint group = 0u;
#else
  const uint group = k / group_steps;
#endif
  const float zero = quantised_zero(n, group), scale = quantised_scale(n, group);
  vec4 w[2];
#if BITS == 4
  unpack_word(tv_ref_u32(quantised_at(quantised_byte(n, k), 4u)).v[0], zero, w);
#else
  const uvec2 words = two_words(n, k);
  vec4 four[FOURS];
  unpack_word(words.x, zero, four);
  w[0] = four[0];
  unpack_word(words.y, zero, four);
  w[1] = four[0];
#endif
  [[unroll]] for (uint e = 0u; e < 4u; e++) {
    v[e] = w[0][e] * scale;
    v[4u + e] = w[1][e] * scale;
  }
}
#endif
#include "pack_fragment.glsl"

void main() {
  const uint z = gl_WorkGroupID.z, lane = gl_SubgroupInvocationID;
  const uint tile = gl_WorkGroupID.x * 8 + gl_SubgroupID;
  const bool valid = tile < fragments;
  const uint span = tile / k_steps * 16 + lane / 2, step = tile % k_steps;
  float v[8];
#if QUANTISED
  FOR(e, 8) v[e] = 0.0;
  if (valid && span < span_count && step * 16 < k_count)
    eight_of(span, step * 16 + lane % 2 * 8, v);
#else
  const uint from = BATCH_OFFSET(z, s) + span * s_span;
  FOR(e, 8) {
#if PAIRED
    const uint k = step / 2 * 32 + in_pair(step % 2, lane % 2 * 8 + e);
#else
    const uint k = step * 16 + lane % 2 * 8 + e;
#endif
    v[e] = 0.0;
    if (valid && span < span_count && k < k_count) v[e] = x_raw(from + k * s_k);
  }
#endif
#if SCALED
  const float up = valid && span < span_count ?
      inverse_power(scale_raw(z * scale_z + span / 16)) : 0.0;
  FOR(e, 8) v[e] *= up;
#endif
  PACK_FRAGMENT(v, valid, z * y_z, tile, lane)
}
