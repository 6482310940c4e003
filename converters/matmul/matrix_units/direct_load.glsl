// Direct fragment loads: rows of a into fragments as they lie (matmul_fragments.comp).
//
// On units that multiply 16x8x16 matrices invocation (g, c) = (lane / 4, lane % 4) holds elements
// 2c, 2c + 1, 2c + 8 and 2c + 9 of rows g and g + 8 of a fragment, in this order (PTX ISA,
// mma.m16n8k16: matrix fragments). Which elements of k a step multiplies does not matter as long as
// both operands agree; so those of two steps are dealt out (in_pair, matrix.glsl) such that an
// invocation's eight of a row are neighbours in memory, one load of 16 bytes, and b is packed in
// that order. Where components lie otherwise the rows are gathered, slowly, and loaded as matrices;
// debug builds do so in every other workgroup.

// The fragment of step `step` (0, 1) of a pair from both rows' chunks.
#define DIRECT_FRAGMENT(f, upper, lower, step)                                               \
  if (f.length() == 8) {                                                                       \
    const uvec4 w_ = (step) == 0 ? uvec4((upper).xy, (lower).xy) : uvec4((upper).zw, (lower).zw); \
    SET_COMPONENTS(f, w_)                                                                      \
  }

// Whether components lie as above: those of a matrix of numbers do. `corner`: of 32 uvec4s of the
// subgroup's.
bool lies_as_loaded(uint corner) {
  if (TV_CHECK == 1 && gl_WorkGroupID.x % 2u == 1u) return false;
  const uint kNumbers = 0x40004000u;  // 2 and a little more, as float16 and as bfloat16
  const uint lane = gl_SubgroupInvocationID;
  uvec4 own;
  FOR(e, 4) own[e] = kNumbers + (lane * 8 + 2 * e) + ((lane * 8 + 2 * e + 1) << 16);
  sh[corner + lane] = own;
  // Of shared memory alone: loads of operands may pass it.
  controlBarrier(gl_ScopeSubgroup, gl_ScopeSubgroup, gl_StorageSemanticsShared,
      gl_SemanticsAcquireRelease);
  FragA f;
  coopMatLoad(f, sh, corner, 2, gl_CooperativeMatrixLayoutRowMajor);
  bool same = f.length() == 8;
  if (f.length() == 8) {
    FOR(e, 4) {
      const uint number = (lane / 4 + e / 2 * 8) * 16 + lane % 4 * 2 + e % 2 * 8;
      const uint words = packFloat2x16(f16vec2(f[2 * e], f[2 * e + 1]));
      same = same && words == kNumbers + number + ((number + 1) << 16);
    }
  }
  return subgroupAll(same);
}

// The subgroup's sums acc of its `share` steps from `step0` on, from rows m0 … of the matrix of a
// at `from`, which are gathered; pb: b behind the last step of this invocation (`lane`), corner: of
// 32 uvec4s of the subgroup's.
#define SUM_GATHERED(acc, from, m0, step0, pb, corner, lane)                                   \
  EACH_TILE acc[i][j] = Sums(0.0);                                                             \
  subgroupBarrier();                                                                           \
  for (uint s = 0u; s < share; s++) {                                                          \
    FragA fa[PIECES][COUNT_M];                                                                 \
    FragB fb[PIECES][COUNT_N];                                                                 \
    FOR(i, COUNT_M) {                                                                          \
      Chunk c_ = gathered(from + min(m0 + i * 16 + lane / 2, m_count - 1) * a_ld,              \
                          step0 + s, lane % 2 * 8);                                            \
      FOR(p, PIECES) {                                                                         \
        sh[corner + lane] = split_chunk(c_, p);                                                \
        subgroupBarrier();                                                                     \
        coopMatLoad(fa[p][i], sh, corner, 2, gl_CooperativeMatrixLayoutRowMajor);              \
        subgroupBarrier();                                                                     \
      }                                                                                        \
    }                                                                                          \
    FOR(p, PIECES) FOR(j, COUNT_N) {                                                           \
      tv_uvec4s at_ = pb - (share - s) * FRAG + (j * LINE + p * 32);                            \
      FRAGMENT(fb[p][j], at_.v, at_ - lane, gl_CooperativeMatrixLayoutColumnMajor)             \
    }                                                                                          \
    MULTIPLY(acc, fa, fb)                                                                      \
  }

// Elements kk … kk + 7 of step `step` of the row that begins at `from`; zeros past k.
Chunk gathered(uint from, uint step, uint kk) {
  float v[8];
  FOR(e, 8) {
    const uint k = step / 2 * 32 + in_pair(step % 2, kk + e);
    v[e] = 0.0;
    if (k < k_count) v[e] = a_raw(from + k);
  }
#if FLOATS
  return Chunk(vec4(v[0], v[1], v[2], v[3]), vec4(v[4], v[5], v[6], v[7]));
#else
  uvec4 c;
  FOR(e, 4) c[e] = TO_16(v[2 * e]) | TO_16(v[2 * e + 1]) << 16;
  return c;
#endif
}
