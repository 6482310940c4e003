// y[z][m][n] = sum over k of a[z][m][k] * b[z][k][n] in fp32, without matrix units.
//
// Tiles of BM x BN outputs a workgroup and RM x RN an invocation (4x4 blocks spread over the tile),
// BK steps of k at a time through two buffers of shared memory with one barrier a tile; the next
// column of operands is in registers across it. A_COLS: neighbours in memory are those of a column of
// a, else of a row; B_COLS likewise; both are loaded four at a time. BLOCK n: every n pairs of tiles
// the sums are added to a second set, so that rounding grows with the blocks; 0: one set.
// FALLBACK: only what a product in float16 pieces leaves out (fallback.glsl). WHOLE_M, WHOLE_N,
// WHOLE_K: m, n, k are multiples of BM, BN, 2 BK. GROUP: tile rows walked together.
// Grid: (tiles of m * tiles of n, 1, z); local (BM / RM) * (BN / RN).

#extension GL_EXT_buffer_reference2 : require

#include "batch.glsl"
#include "epilogue.glsl"
#if FALLBACK
#include "fallback.glsl"
#endif

#define FOR(i, n) [[unroll]] for (uint i = 0u; i < uint(n); i++)
layout(buffer_reference, scalar, buffer_reference_align = 16) buffer tv_fours { vec4 v; };

// Rows of the transposed a are PAD apart more than they are long: fewer bank conflicts.
const uint PAD = 4, LDA = BM + PAD, LDB = BN + (B_COLS == 1 ? 4 : 0);
shared vec4 sa[2][BK * LDA / 4];
shared vec4 sb[2][BK * LDB / 4];
const uint NA = BM * BK / 4 / LOCAL_X, NB = BN * BK / 4 / LOCAL_X;
const uint LINE_A = A_COLS == 1 ? BM : BK, LINE_B = B_COLS == 1 ? BK : BN;
const uint STEP_A = LOCAL_X / (LINE_A / 4), STEP_B = LOCAL_X / (LINE_B / 4);
#define TILES_K ((k_count + BK - 1) / BK)
#define LD_A (a_ld / 4)
#define LD_B (b_ld / 4)

void main() {
  const uint tiles_m = (m_count + BM - 1) / BM, tiles_n = (n_count + BN - 1) / BN;
  const uint id = gl_WorkGroupID.x, z = gl_WorkGroupID.z, tid = gl_LocalInvocationID.x;
  const uint first = id / (GROUP * tiles_n) * GROUP, rows = min(GROUP, tiles_m - first);
  const uint rest = id % (GROUP * tiles_n), bm = first + rest % rows, bn = rest / rows;
  // 32 neighbours cover 4 x 8 invocations, so that their reads of a hit 4 and of b 8 vectors.
  const uint TX = BN / RN, warp = tid / 32, lane = tid % 32;
  const uint tx = lane % 8 + warp % (TX / 8) * 8, ty = lane / 8 + warp / (TX / 8) * 4;

#if FALLBACK
  // Whether the tile has outputs that the product in float16 pieces left out.
  float most_a = 0.0, most_b = 0.0;
  for (uint g = bm * (BM / 16); g < min((bm + 1) * (BM / 16), (m_count + 15) / 16); g++) {
    most_a = max(most_a, lost_a(z, g));
  }
  for (uint g = bn * (BN / 16); g < min((bn + 1) * (BN / 16), (n_count + 15) / 16); g++) {
    most_b = max(most_b, lost_b(z, g));
  }
  if (most_a + most_b <= 1.0) return;
#define NEEDS_FALLBACK(m, n) needs_fallback(z, m, n)
#else
#define NEEDS_FALLBACK(m, n) true
#endif

  const uint row_a = tid / (LINE_A / 4), col_a = tid % (LINE_A / 4);
  const uint row_b = tid / (LINE_B / 4), col_b = tid % (LINE_B / 4);
#if A_COLS
  tv_fours pa = tv_fours(a_ptr) + (BATCH_OFFSET(z, az) / 4 + row_a * LD_A +
                                   min(bm * (BM / 4) + col_a, m_count / 4 - 1));
#define A_AT(i) ((i) * STEP_A * LD_A)
#define A_NEXT (BK * LD_A)
#define A_K(i) (at * BK + row_a + (i) * STEP_A)
#else
#if WHOLE_M
  tv_fours pa = tv_fours(a_ptr) + (BATCH_OFFSET(z, az) / 4 + (bm * BM + row_a) * LD_A + col_a);
#define A_AT(i) ((i) * STEP_A * LD_A)
#else
  tv_fours pa = tv_fours(a_ptr) + (BATCH_OFFSET(z, az) / 4 + col_a);
  uint rows_a[NA];
  FOR(i, NA) rows_a[i] = min(bm * BM + row_a + i * STEP_A, m_count - 1) * LD_A;
#define A_AT(i) rows_a[i]
#endif
#define A_NEXT (BK / 4)
#define A_K(i) (at * BK + col_a * 4)
#endif
#if B_COLS
  tv_fours pb = tv_fours(b_ptr) + (BATCH_OFFSET(z, bz) / 4 + col_b);
  uint rows_b[NB];
  FOR(i, NB) rows_b[i] = min(bn * BN + row_b + i * STEP_B, n_count - 1) * LD_B;
#define B_AT(i) rows_b[i]
#define B_NEXT (BK / 4)
#define B_K(i) (at * BK + col_b * 4)
#else
  tv_fours pb = tv_fours(b_ptr) + (BATCH_OFFSET(z, bz) / 4 + row_b * LD_B +
                                   min(bn * (BN / 4) + col_b, n_count / 4 - 1));
#define B_AT(i) ((i) * STEP_B * LD_B)
#define B_NEXT (BK * LD_B)
#define B_K(i) (at * BK + row_b + (i) * STEP_B)
#endif

  vec4 ra[NA], rb[NB], acc[RM][RN / 4];
  FOR(i, RM) FOR(j, RN / 4) acc[i][j] = vec4(0.0);
#if BLOCK
  vec4 total[RM][RN / 4];
  FOR(i, RM) FOR(j, RN / 4) total[i][j] = vec4(0.0);
#endif

// Past the last tile: the last again where nobody uses it, else zeros.
#if WHOLE_K
#define FETCH(t) {                                                                         \
    const uint at = min(t, TILES_K - 1);                                                   \
    tv_fours qa = pa + at * A_NEXT, qb = pb + at * B_NEXT;                                 \
    FOR(i, NA) ra[i] = qa[A_AT(i)].v;                                                      \
    FOR(i, NB) rb[i] = qb[B_AT(i)].v; }
#else
#define FETCH(t) {                                                                         \
    const uint at = t;                                                                     \
    tv_fours qa = pa + at * A_NEXT, qb = pb + at * B_NEXT;                                 \
    FOR(i, NA) { ra[i] = vec4(0.0); if (A_K(i) < k_count) ra[i] = qa[A_AT(i)].v; }         \
    FOR(i, NB) { rb[i] = vec4(0.0); if (B_K(i) < k_count) rb[i] = qb[B_AT(i)].v; } }
#endif
#if A_COLS
#define STASH_A(s) FOR(i, NA) sa[s][(row_a + i * STEP_A) * (LDA / 4) + col_a] = ra[i];
#else
#define STASH_A(s) FOR(i, NA) FOR(e, 4)                                                    \
    sa[s][(col_a * 4 + e) * (LDA / 4) + (row_a + i * STEP_A) / 4][(row_a + i * STEP_A) % 4] = ra[i][e];
#endif
#if B_COLS
#define STASH_B(s) FOR(i, NB) FOR(e, 4)                                                    \
    sb[s][(col_b * 4 + e) * (LDB / 4) + (row_b + i * STEP_B) / 4][(row_b + i * STEP_B) % 4] = rb[i][e];
#else
#define STASH_B(s) FOR(i, NB) sb[s][(row_b + i * STEP_B) * (LDB / 4) + col_b] = rb[i];
#endif
#define STASH(s) STASH_A(s) STASH_B(s)

  vec4 fa[2][RM / 4], fb[2][RN / 4];
#define FRAGS(slot, s, k)                                                                  \
  FOR(i, RM / 4) fa[slot][i] = sa[s][(k) * (LDA / 4) + i * (BM / RM) + ty];                \
  FOR(j, RN / 4) fb[slot][j] = sb[s][(k) * (LDB / 4) + j * (BN / RN) + tx];
#define MULTIPLY(slot)                                                                     \
  FOR(i, RM) FOR(j, RN / 4) acc[i][j] = fma(vec4(fa[slot][i / 4][i % 4]), fb[slot][j], acc[i][j]);
#define TILE(t)                                                                            \
  FOR(k, BK - 1) { FRAGS((k + 1) % 2, t, k + 1) MULTIPLY(k % 2) }                          \
  barrier();                                                                               \
  FRAGS(BK % 2, 1 - t, 0)                                                                  \
  MULTIPLY((BK - 1) % 2)                                                                   \
  STASH(t)                                                                                 \
  FETCH(tt + t + 3)

  FETCH(0u)
  STASH(0)
  FETCH(1u)
  STASH(1)
  FETCH(2u)
  barrier();
  FRAGS(0, 0, 0)
  for (uint tt = 0u; tt < TILES_K; tt += 2u) {
    TILE(0)
    TILE(1)
#if BLOCK
    if ((tt / 2u + 1u) % BLOCK == 0u || tt + 2u >= TILES_K) {
      FOR(i, RM) FOR(j, RN / 4) {
        total[i][j] += acc[i][j];
        acc[i][j] = vec4(0.0);
      }
    }
#endif
  }

  EACH_STORE(r, RM * RN / 4) {
    const uint i = r / (RN / 4), j = r % (RN / 4);
    const uint m = bm * BM + i / 4 * (BM * 4 / RM) + ty * 4 + i % 4;
    const uint n = bn * BN + j * (BN * 4 / RN) + tx * 4;
    vec4 v;
#if BLOCK
    PICK(q, r, RM * RN / 4, v = total[q / (RN / 4)][q % (RN / 4)])
#else
    PICK(q, r, RM * RN / 4, v = acc[q / (RN / 4)][q % (RN / 4)])
#endif
    if (m < m_count && n < n_count && NEEDS_FALLBACK(m, n)) {
      const uint at = (z * m_count + m) * n_count + n;
#if N4
      y_store4(at, v);
#else
      FOR(e, 4) { if (n + e < n_count) y_store(at + e, v[e]); }
#endif
    }
  }
}
