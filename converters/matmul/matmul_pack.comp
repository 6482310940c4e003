// An operand of a matrix product in the order in which a subgroup holds its 16x16 fragments, so that
// a fragment is one load of 16 bytes by each invocation.
//
// x: any strides, s_span along m (SIDE_A) or n, s_k along k. y: [z][spans / 16][k_steps][PIECES][32]
// units of 16 bytes, zeros past spans and k_count. With another count of components an invocation
// than 8 a fragment is its 16x16 matrix, [span][k], of the same size. PAIRED: two steps of k deal their
// elements out as direct_load.glsl says. One subgroup a fragment.
// Grid: (ceil(fragments / 8), 1, z); local 256.

#include "batch.glsl"
#include "pack_fragment.glsl"

void main() {
  const uint z = gl_WorkGroupID.z, lane = gl_SubgroupInvocationID;
  const uint tile = gl_WorkGroupID.x * 8 + gl_SubgroupID;
  const bool valid = tile < fragments;
  const uint span = tile / k_steps * 16 + lane / 2, step = tile % k_steps;
  const uint from = BATCH_OFFSET(z, s) + span * s_span;
  float v[8];
  FOR(e, 8) {
#if PAIRED
    const uint k = step / 2 * 32 + in_pair(step % 2, lane % 2 * 8 + e);
#else
    const uint k = step * 16 + lane % 2 * 8 + e;
#endif
    v[e] = 0.0;
    if (valid && span < span_count && k < k_count) v[e] = x_raw(from + k * s_k);
  }
#if SCALED
  const float up = valid && span < span_count ? inverse_power(scale_raw(z * scale_z + span / 16)) : 0.0;
  FOR(e, 8) v[e] *= up;
#endif
  PACK_FRAGMENT(v, valid, z * y_z, tile, lane)
}
