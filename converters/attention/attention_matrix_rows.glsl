// Rows of matrices for attention_matrix.comp: REDUCE(m, f, corner) puts f of each row in the place
// of all of its elements, PROBABILITIES(a, s, j, corner) makes the sums s, columns 16 j on, an
// operand. Without NV2 through the patch of shared memory at `corner`.

float larger(const in float a, const in float b) { return a > b ? a : b; }
float plus(const in float a, const in float b) { return a + b; }

#if NV2
#define REDUCE(m, f, corner) \
  { Sums r_; coopMatReduceNV(r_, m, gl_CooperativeMatrixReduceRowNV, f); m = r_; }
#define PROBABILITIES(a, s, j, corner) a = FragA(s);
#else
// Through the patch at `corner`: each row's result takes the place of all of its elements.
#define REDUCE(m, f, corner)                                                                      \
  {                                                                                               \
    coopMatStore(m, sh, corner, 5, gl_CooperativeMatrixLayoutRowMajor);                           \
    subgroupBarrier();                                                                            \
    for (uint t_ = gl_SubgroupInvocationID; t_ < 16u; t_ += gl_SubgroupSize) {                    \
      float v_ = uintBitsToFloat(sh[corner + t_ * 5u].x);                                         \
      FOR(e_, 15)                                                                                  \
        v_ = f(v_, uintBitsToFloat(sh[corner + t_ * 5u + (e_ + 1u) / 4u][(e_ + 1u) % 4u]));        \
      FOR(e_, 4) sh[corner + t_ * 5u + e_] = uvec4(floatBitsToUint(v_));                          \
    }                                                                                             \
    subgroupBarrier();                                                                            \
    coopMatLoad(m, sh, corner, 5, gl_CooperativeMatrixLayoutRowMajor);                            \
    subgroupBarrier();                                                                            \
  }
#define PROBABILITIES(a, s, j, corner)                                                            \
  {                                                                                               \
    const Halves h_ = Halves(s);                                                                  \
    coopMatStore(h_, sh, corner + j * 2u, LDP, gl_CooperativeMatrixLayoutRowMajor);               \
    subgroupBarrier();                                                                            \
    coopMatLoad(a, sh, corner + j * 2u, LDP, gl_CooperativeMatrixLayoutRowMajor);                 \
    subgroupBarrier();                                                                            \
  }
#endif

#if ROUND
float rounded(float f) {
  const uint u = floatBitsToUint(f);
  return uintBitsToFloat((u + 0x7fffu + (u >> 16 & 1u)) & 0xffff0000u);
}
#else
#define rounded(f) (f)
#endif
