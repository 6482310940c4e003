// y[z][m][n] = sum over k of a[z][m][k] * b[z][k][n] on matrix units, operands straight from memory
// into registers: for products too small to share loads through a workgroup.
//
// b comes in fragment order (matmul_pack.comp); so does a where A_PACKED. Else its rows are read:
// where DIRECT into fragments as they are (direct_load.glsl), two steps of k at a time, else
// through a patch of shared memory of the subgroup's own, UNROLL steps at a time. Tiles of BM x BN
// outputs a workgroup and WM x WN a subgroup; WK subgroups share the steps of k, `share` each (a
// multiple of UNROLL), and add up in order, STRIP rows of fragments at a time; SPLIT workgroups
// share the steps before that, and write sums for matmul_split_k.comp. RING steps of operands that
// come straight are in flight; it divides UNROLL, and is even where DIRECT. PIECES > 1: operands
// are fp32 in pieces (matrix.glsl); PROMOTE: each step's sum is added outside the units, with
// rounding. WHOLE_M, WHOLE_K: m is a multiple of BM, k of 16 WK SPLIT UNROLL. Grid: (tiles of m *
// tiles of n, 1, SPLIT * z); local 32 * (BM / WM) * (BN / WN) * WK.

#include "batch.glsl"

const uint WARPS_M = BM / WM, WARPS_N = BN / WN;
// Rows of the patch are an odd number of units apart.
const uint LDA = UNROLL * 2 + 1, PIECE_A = A_PACKED == 1 || DIRECT == 1 ? 0 : WM * LDA;
const uint ROWS = PIECES * PIECE_A * WARPS_M * WARPS_N * WK;
const uint SPACE = WK > 1 ? WK * WARPS_M * STRIP * 16 * (BN / 4 + 1) : WARPS_M * WARPS_N * 16 * (WN / 4 + 1);
shared uvec4 sh[ROWS > SPACE ? ROWS : SPACE];

#define PATCH 1
#define K_OF_SHARE (share * (WK * 16))
#include "matrix.glsl"
#if DIRECT
#include "direct_load.glsl"
#endif

// Lines of 16 rows or columns: [k / 16][PIECES][32] units.
#define UNIT (PIECES * 32)
#define LINE (k_steps * UNIT)

void main() {
  const uint tiles_m = (m_count + BM - 1) / BM, tiles_n = (n_count + BN - 1) / BN;
  const uint id = gl_WorkGroupID.x, lane = gl_SubgroupInvocationID;
#if SPLIT > 1
  const uint z = gl_WorkGroupID.z % matrices;
  tv_share = gl_WorkGroupID.z / matrices;
#define FIRST_STEP ((tv_share * WK + wk) * share)
#else
  const uint z = gl_WorkGroupID.z;
#define FIRST_STEP (wk * share)
#endif
  const uint first = id / (GROUP * tiles_n) * GROUP, rows = min(GROUP, tiles_m - first);
  const uint rest = id % (GROUP * tiles_n), bm = first + rest % rows, bn = rest / rows;
  const uint warp = gl_SubgroupID, wk = warp / (WARPS_M * WARPS_N);
  const uint wm = warp % WARPS_M, wn = warp / WARPS_M % WARPS_N;
  const uint m0 = bm * BM + wm * WM, n0 = bn * BN + wn * WN;

  tv_units pb = tv_units(packed_ptr) + (z * packed_z + n0 / 16 * LINE + FIRST_STEP * UNIT + lane);
  Sums acc[COUNT_M][COUNT_N];
  EACH_TILE acc[i][j] = Sums(0.0);
  uvec4 gb[RING][PIECES][COUNT_N];
#define FETCH_B(slot, step) FOR(p, PIECES) FOR(j, COUNT_N) \
    gb[slot][p][j] = pb[(step) * UNIT + j * LINE + p * 32].v;
  FOR(r, RING) { FETCH_B(r, r) }

#if A_PACKED
  tv_units pa = tv_units(packed_a_ptr) + (z * packed_a_z + m0 / 16 * LINE + FIRST_STEP * UNIT + lane);
  uvec4 ga[RING][PIECES][COUNT_M];
#define FETCH_A(slot, step) FOR(p, PIECES) FOR(i, COUNT_M) \
    ga[slot][p][i] = pa[(step) * UNIT + i * LINE + p * 32].v;
#define LOAD_A(u) FOR(p, PIECES) FOR(i, COUNT_M) {                                             \
    FRAGMENT(fa[p][i], ga[(u) % RING][p][i], pa + ((u) * UNIT + i * LINE + p * 32) - lane,     \
             gl_CooperativeMatrixLayoutRowMajor) }
  FOR(r, RING) { FETCH_A(r, r) }
#elif DIRECT
  // Invocation (row, chunk) has this chunk of rows `row` and `row` + 8 of each fragment of two steps.
  const uint row = lane / 4, chunk = lane % 4;
  tv_chunks pa = tv_chunks(a_ptr) + (BATCH_OFFSET(z, az) / 8);
  uint at_a[COUNT_M][2];
  FOR(i, COUNT_M) FOR(h, 2) at_a[i][h] = min(m0 + i * 16 + h * 8 + row, m_count - 1) * (a_ld / 8);
  Chunk ga[RING / 2][COUNT_M][2];
  uvec4 words[PIECES][COUNT_M][2];
  // Those of steps `step` and `step` + 1 behind step `base`; zeros past k.
#if WHOLE_K
#define FETCH_A(slot, base, step) FOR(i, COUNT_M) FOR(h, 2) {                                  \
    tv_chunks q_ = pa + (at_a[i][h] + (base) * 2 + chunk);                                     \
    ga[(slot) / 2][i][h] = LOAD_CHUNK(q_[(step) * 2]); }
#else
#define FETCH_A(slot, base, step) { const uint n_ = ((base) + (step)) * 2 + chunk;             \
    FOR(i, COUNT_M) FOR(h, 2) {                                                                \
      ga[(slot) / 2][i][h] = LOAD_CHUNK(pa[at_a[i][h] + min(n_, k_count / 8 - 1)]);            \
      if (n_ * 8 >= k_count) ga[(slot) / 2][i][h] = NO_CHUNK; } }
#endif
#define LOAD_A(u) {                                                                            \
    if ((u) % 2 == 0) FOR(i, COUNT_M) FOR(h, 2) {                                              \
      Chunk c_ = ga[(u) % RING / 2][i][h];                                                     \
      FOR(p, PIECES) words[p][i][h] = split_chunk(c_, p); }                                    \
    FOR(p, PIECES) FOR(i, COUNT_M)                                                             \
      STRAIGHT_FRAGMENT(fa[p][i], words[p][i][0], words[p][i][1], (u) % 2) }
  FOR(r, RING / 2) { FETCH_A(2 * r, FIRST_STEP, 2 * r) }
#else
  const uint patch_a = warp * (PIECES * PIECE_A);
  const uint NA = WM * UNROLL / 16;  // chunks of an invocation
  Chunk ra[NA];
  tv_chunks pa = tv_chunks(a_ptr) + (BATCH_OFFSET(z, az) / 8);
  uint at_a[NA];
  FOR(i, NA) {
    const uint c = i * 32 + lane, m = m0 + c / (UNROLL * 2);
    at_a[i] = min(m, m_count - 1) * (a_ld / 8) + c % (UNROLL * 2);
  }
  // Rows of the block of UNROLL steps that begins at `step`; zeros past k.
#if WHOLE_K
#define FETCH_ROWS(step) { const uint k2 = min(FIRST_STEP + (step), k_steps - UNROLL) * 2; \
    FOR(i, NA) ra[i] = LOAD_CHUNK(pa[k2 + at_a[i]]); }
#else
#define FETCH_ROWS(step) { const uint k2 = (FIRST_STEP + (step)) * 2;                      \
    FOR(i, NA) { ra[i] = NO_CHUNK;                                                         \
      if ((k2 + (i * 32 + lane) % (UNROLL * 2)) * 8 < k_count) ra[i] = LOAD_CHUNK(pa[k2 + at_a[i]]); } }
#endif
#define LOAD_A(u) FOR(p, PIECES) FOR(i, COUNT_M) coopMatLoad(fa[p][i], sh, \
    patch_a + p * PIECE_A + i * 16 * LDA + (u) * 2, LDA, gl_CooperativeMatrixLayoutRowMajor);
  FETCH_ROWS(0u)
#endif

#if PROMOTE
#define BEGIN Sums sum[COUNT_M]; FOR(i, COUNT_M) sum[i] = Sums(0.0);
#define SUM(i, j) sum[i]
#define END(j) FOR(i, COUNT_M) acc[i][j] += sum[i];
#else
#define BEGIN
#define SUM(i, j) acc[i][j]
#define END(j)
#endif

#define MULTIPLY(fa, fb) FOR(j, COUNT_N) {                                                     \
    BEGIN                                                                                      \
    [[unroll]] for (int order = PIECES - 1; order >= 0; order--)                               \
      [[unroll]] for (int p = 0; p <= order; p++)                                              \
        FOR(i, COUNT_M) SUM(i, j) = coopMatMulAdd(fa[p][i], fb[order - p][j], SUM(i, j));      \
    END(j)                                                                                     \
  }

#if DIRECT
  const bool direct = lies_as_loaded(warp * 32u);  // asked for at the end: no load waits for it
#endif
  for (uint s = 0u; s < share; s += UNROLL) {
#if DIRECT
    const uint here = FIRST_STEP + s, next = min(here + UNROLL, k_steps - UNROLL);
#elif !A_PACKED
    FOR(i, NA) {
      const uint c = i * 32 + lane;
      const uint at = patch_a + c / (UNROLL * 2) * LDA + c % (UNROLL * 2);
      FOR(p, PIECES) sh[at + p * PIECE_A] = split_chunk(ra[i], p);
    }
    subgroupBarrier();
    FETCH_ROWS(s + UNROLL)
#endif
    FOR(u, UNROLL) {
      FragA fa[PIECES][COUNT_M];
      FragB fb[PIECES][COUNT_N];
      LOAD_A(u)
      FOR(p, PIECES) FOR(j, COUNT_N) {
        FRAGMENT(fb[p][j], gb[u % RING][p][j], pb + (u * UNIT + j * LINE + p * 32) - lane,
                 gl_CooperativeMatrixLayoutColumnMajor)
      }
      FETCH_B(u % RING, u + RING)
#if A_PACKED
      FETCH_A(u % RING, u + RING)
#elif DIRECT
      if (u % 2 == 1) {
        if (u - 1 + RING < UNROLL) { FETCH_A(u % RING, here, u - 1 + RING) }
        else { FETCH_A(u % RING, next, u - 1 + RING - UNROLL) }
      }
#endif
      MULTIPLY(fa, fb)
    }
    pb += UNROLL * UNIT;
#if A_PACKED
    pa += UNROLL * UNIT;
#elif !DIRECT
    subgroupBarrier();
#endif
  }

#if DIRECT
  if (!direct) { SUM_GATHERED }
#endif
  STORE_TILE(z, bm * BM, bn * BN)
}
