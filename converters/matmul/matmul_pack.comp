// An operand of a matrix product in the order in which a subgroup holds its 16x16 fragments, so that
// a fragment is one load of 16 bytes by each invocation.
//
// x: any strides, s_span along m (SIDE_A) or n, s_k along k. y: [z][spans / 16][k_steps][PIECES][32]
// units of 16 bytes, zeros past spans and k_count. With another count of components an invocation
// than 8 a fragment is its 16x16 matrix, [span][k], of the same size. PAIRED: two steps of k deal their
// elements out as direct_load.glsl says. One subgroup a fragment.
// Grid: (ceil(fragments / 8), 1, z); local 256.

#include "batch.glsl"

shared uvec4 sh[8][PIECES][32];

#include "matrix.glsl"

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
#if SIDE_A
    FragA f;
    coopMatLoad(f, sh[gl_SubgroupID][p], 0, 2, gl_CooperativeMatrixLayoutRowMajor);
#else
    FragB f;
    coopMatLoad(f, sh[gl_SubgroupID][p], 0, 2, gl_CooperativeMatrixLayoutColumnMajor);
#endif
    uvec4 r = sh[gl_SubgroupID][p][lane];
    if (f.length() == 8) {
      FOR(e, 4) r[e] = packFloat2x16(f16vec2(f[2 * e], f[2 * e + 1]));
    }
    if (valid) tv_ref_u32x4(y_ptr).v[z * y_z + (tile * PIECES + p) * 32 + lane] = r;
  }
}
