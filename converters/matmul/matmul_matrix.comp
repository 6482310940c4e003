// y[z][m][n] = sum over k of a[z][m][k] * b[z][k][n] on matrix units, sums in fp32.
//
// Tiles of BM x BN outputs a workgroup and WM x WN a subgroup, BK steps of k at a time through two
// buffers of shared memory with one barrier a tile. WK subgroups split each tile of k. AHEAD:
// fragments are loaded a step ahead, across the barrier. PACKED n: b comes in fragment order
// (matmul_pack.comp), straight into registers, n steps of 16 ahead; 0: it goes through shared memory.
// A_COLS: neighbours in memory are those of a column of a, else of a row; B_COLS likewise.
// PIECES > 1: a and b are fp32 (matrix.glsl), with STAGES buffers of shared memory, 1 or 2; PROMOTE n:
// the units, which cut their sums, add n steps of 16 only, the rest is added outside. WHOLE_M,
// WHOLE_N, WHOLE_K: m, n, k are multiples of BM, BN, 2 BK.
// GROUP: tile rows walked together, for the cache.
// Addresses are written so that what is known at compile time ends up in an instruction's offset.
// Grid: (tiles of m * tiles of n, 1, z); local 32 * (BM / WM) * (BN / WN) * WK.

#include "batch.glsl"

const uint WARPS_M = BM / WM, WARPS_N = BN / WN;
#if B_COLS
const uint ROWS_B = BN, COLS_B = BK;
#else
const uint ROWS_B = BK, COLS_B = BN;
#endif
#if A_COLS
const uint ROWS_A = BK, COLS_A = BM;
#else
const uint ROWS_A = BM, COLS_A = BK;
#endif
// Shared rows are an odd number of units of 16 bytes apart, so that the 8 rows of a matrix load fall
// into different banks.
const uint LDA = COLS_A / 8 + 1, LDB = COLS_B / 8 + 1;
const uint PIECE_A = ROWS_A * LDA, PIECE_B = ROWS_B * LDB;
const uint BASE_B = PIECES * PIECE_A, STAGE = BASE_B + (PACKED > 0 ? 0 : PIECES * PIECE_B);
const uint SPACE = WK > 1 ? WK * WARPS_M * STRIP * 16 * (BN / 4 + 1) : WARPS_M * WARPS_N * 16 * (WN / 4 + 1);
shared uvec4 sh[STAGES * STAGE > SPACE ? STAGES * STAGE : SPACE];

#define PATCH 1
#include "matrix.glsl"

const uint NA = BM * BK / 8 / LOCAL_X, NB = BN * BK / 8 / LOCAL_X;
const uint STEP_A = LOCAL_X / (COLS_A / 8), STEP_B = LOCAL_X / (COLS_B / 8);
const uint KS = BK / 16 / WK;
#define TILES_K ((k_count + BK - 1) / BK)
#define LD_A (a_ld / 8)
#define LD_B (b_ld / 8)

// The row that an invocation copies: 8 neighbours take rows 8 / (rows they cover) apart, which avoids
// bank conflicts.
uint spread(uint q, uint chunks) {
  const uint covered = chunks >= 8 ? 1 : 8 / chunks;
  return q / 8 * 8 + q % covered * (8 / covered) + q % 8 / covered;
}

void main() {
  const uint tiles_m = (m_count + BM - 1) / BM, tiles_n = (n_count + BN - 1) / BN;
  const uint id = gl_WorkGroupID.x, z = gl_WorkGroupID.z;
  const uint first = id / (GROUP * tiles_n) * GROUP, rows = min(GROUP, tiles_m - first);
  const uint rest = id % (GROUP * tiles_n), bm = first + rest % rows, bn = rest / rows;
  const uint tid = gl_LocalInvocationID.x, warp = gl_SubgroupID;
  const uint wk = warp / (WARPS_M * WARPS_N), wm = warp % WARPS_M, wn = warp / WARPS_M % WARPS_N;

  const uint col_a = tid % (COLS_A / 8), col_b = tid % (COLS_B / 8);
#if A_COLS
  const uint row_a = tid / (COLS_A / 8);
  const uint frag_a = wk * 16 * LDA + wm * (WM / 8);
  // A chunk of 8 rows of a; past the last it repeats it.
  tv_chunks pa = tv_chunks(a_ptr) + (BATCH_OFFSET(z, az) / 8 + row_a * LD_A +
                                     min(bm * (BM / 8) + col_a, m_count / 8 - 1));
#define A_AT(i) ((i) * STEP_A * LD_A)
#define A_NEXT (BK * LD_A)
#define A_K(i) (at * BK + row_a + (i) * STEP_A)
#else
  const uint row_a = spread(tid / (COLS_A / 8), COLS_A / 8);
  const uint frag_a = wm * WM * LDA + wk * 2;
#if WHOLE_M
  tv_chunks pa = tv_chunks(a_ptr) + (BATCH_OFFSET(z, az) / 8 + (bm * BM + row_a) * LD_A + col_a);
#define A_AT(i) ((i) * STEP_A * LD_A)
#else
  tv_chunks pa = tv_chunks(a_ptr) + (BATCH_OFFSET(z, az) / 8 + col_a);
  uint rows_a[NA];
  FOR(i, NA) rows_a[i] = min(bm * BM + row_a + i * STEP_A, m_count - 1) * LD_A;
#define A_AT(i) rows_a[i]
#endif
#define A_NEXT (BK / 8)
#define A_K(i) (at * BK + col_a * 8)
#endif
  const uint dst_a = row_a * LDA + col_a;

#if !PACKED
#if B_COLS
  const uint row_b = spread(tid / (COLS_B / 8), COLS_B / 8);
  const uint frag_b = BASE_B + wn * WN * LDB + wk * 2;
#if WHOLE_N
  tv_chunks pb = tv_chunks(b_ptr) + (BATCH_OFFSET(z, bz) / 8 + (bn * BN + row_b) * LD_B + col_b);
#define B_AT(i) ((i) * STEP_B * LD_B)
#else
  tv_chunks pb = tv_chunks(b_ptr) + (BATCH_OFFSET(z, bz) / 8 + col_b);
  uint rows_b[NB];
  FOR(i, NB) rows_b[i] = min(bn * BN + row_b + i * STEP_B, n_count - 1) * LD_B;
#define B_AT(i) rows_b[i]
#endif
#define B_NEXT (BK / 8)
#define B_K(i) (at * BK + col_b * 8)
#else
  const uint row_b = tid / (COLS_B / 8);
  const uint frag_b = BASE_B + wk * 16 * LDB + wn * (WN / 8);
  tv_chunks pb = tv_chunks(b_ptr) + (BATCH_OFFSET(z, bz) / 8 + row_b * LD_B +
                                     min(bn * (BN / 8) + col_b, n_count / 8 - 1));
#define B_AT(i) ((i) * STEP_B * LD_B)
#define B_NEXT (BK * LD_B)
#define B_K(i) (at * BK + row_b + (i) * STEP_B)
#endif
  const uint dst_b = BASE_B + row_b * LDB + col_b;
#endif

  Chunk ra[NA];
#if !PACKED
  Chunk rb[NB];
#endif
  Sums acc[COUNT_M][COUNT_N];
  EACH_TILE acc[i][j] = Sums(0.0);

// Past the last tile: the last again where nobody uses it (no branch, so no copies of registers),
// else zeros.
#if WHOLE_K
#define TILE_AT(t) min(t, TILES_K - 1)
#else
#define TILE_AT(t) (t)
#endif
#if WHOLE_K
#define FETCH_A FOR(i, NA) ra[i] = LOAD_CHUNK(qa[A_AT(i)]);
#define FETCH_B FOR(i, NB) rb[i] = LOAD_CHUNK(qb[B_AT(i)]);
#else
#define FETCH_A FOR(i, NA) { ra[i] = NO_CHUNK; if (A_K(i) < k_count) ra[i] = LOAD_CHUNK(qa[A_AT(i)]); }
#define FETCH_B FOR(i, NB) { rb[i] = NO_CHUNK; if (B_K(i) < k_count) rb[i] = LOAD_CHUNK(qb[B_AT(i)]); }
#endif
#if SCALED
  float up_a[NA];
#if A_COLS
  FOR(i, NA) up_a[i] = inverse_power(scale_a_raw(
      z * scale_a_z + min((bm * BM + col_a * 8) / 16, (m_count - 1) / 16)));
#else
  FOR(i, NA) up_a[i] = inverse_power(scale_a_raw(
      z * scale_a_z + min(bm * BM + row_a + i * STEP_A, m_count - 1) / 16));
#endif
#define SCALE_A ra[i].lo *= up_a[i]; ra[i].hi *= up_a[i];
#if !PACKED
  float up_b[NB];
#if B_COLS
  FOR(i, NB) up_b[i] = inverse_power(scale_b_raw(
      z * scale_b_z + min(bn * BN + row_b + i * STEP_B, n_count - 1) / 16));
#else
  FOR(i, NB) up_b[i] = inverse_power(scale_b_raw(
      z * scale_b_z + min((bn * BN + col_b * 8) / 16, (n_count - 1) / 16)));
#endif
#endif
#define SCALE_B rb[i].lo *= up_b[i]; rb[i].hi *= up_b[i];
#else
#define SCALE_A
#define SCALE_B
#endif
#define STASH_A(stage) FOR(i, NA) { SCALE_A FOR(p, PIECES) \
    sh[(stage) * STAGE + p * PIECE_A + dst_a + i * STEP_A * LDA] = split_chunk(ra[i], p); }
#define STASH_B(stage) FOR(i, NB) { SCALE_B FOR(p, PIECES) \
    sh[(stage) * STAGE + p * PIECE_B + dst_b + i * STEP_B * LDB] = split_chunk(rb[i], p); }
#if PACKED
#define FETCH(t) { const uint at = TILE_AT(t); tv_chunks qa = pa + at * A_NEXT; FETCH_A }
#define STASH(stage) { STASH_A(stage) }
#else
#define FETCH(t) { const uint at = TILE_AT(t); tv_chunks qa = pa + at * A_NEXT, qb = pb + at * B_NEXT; \
                   FETCH_A FETCH_B }
#define STASH(stage) { STASH_A(stage) STASH_B(stage) }
#endif

#if A_COLS
#define LOAD_A(f, stage, s, p, i) coopMatLoad(f, sh, frag_a + (stage) * STAGE + (p) * PIECE_A + \
    (s) * WK * 16 * LDA + (i) * 2, LDA, gl_CooperativeMatrixLayoutColumnMajor);
#else
#define LOAD_A(f, stage, s, p, i) coopMatLoad(f, sh, frag_a + (stage) * STAGE + (p) * PIECE_A + \
    (s) * WK * 2 + (i) * 16 * LDA, LDA, gl_CooperativeMatrixLayoutRowMajor);
#endif
#if B_COLS
#define LOAD_B(f, stage, s, p, j) coopMatLoad(f, sh, frag_b + (stage) * STAGE + (p) * PIECE_B + \
    (s) * WK * 2 + (j) * 16 * LDB, LDB, gl_CooperativeMatrixLayoutColumnMajor);
#else
#define LOAD_B(f, stage, s, p, j) coopMatLoad(f, sh, frag_b + (stage) * STAGE + (p) * PIECE_B + \
    (s) * WK * 16 * LDB + (j) * 2, LDB, gl_CooperativeMatrixLayoutRowMajor);
#endif

#if PACKED
// Lines of 16 columns: [k / 16][PIECES][32] units.
#define LINE (k_steps * (PIECES * 32))
#define RING_AT(s, p, j) ((s) * (WK * PIECES * 32) + (p) * 32 + (j) * LINE)
  tv_units pp = tv_units(packed_ptr) + (z * packed_z + (bn * (BN / 16) + wn * COUNT_N) * LINE +
                                        wk * (PIECES * 32) + gl_SubgroupInvocationID);
  uvec4 ring[PACKED][PIECES][COUNT_N];
  FOR(r, PACKED) FOR(p, PIECES) FOR(j, COUNT_N) ring[r][p][j] = pp[RING_AT(r, p, j)].v;
#define NEXT_TILE pp += KS * (WK * PIECES * 32);
// The fragment of step s of the tile that pp is at; its place in the ring takes a later one.
#define RING_B(f, t, s, p, j) {                                                                    \
    const uint r = ((t) * KS + (s)) % PACKED;                                                      \
    FRAGMENT(f, ring[r][p][j], pp + RING_AT(s, p, j) - gl_SubgroupInvocationID,                    \
             gl_CooperativeMatrixLayoutColumnMajor)                                                \
    ring[r][p][j] = pp[RING_AT((s) + PACKED, p, j)].v; }
#else
#define NEXT_TILE
#endif

#if PIECES > 1
// Steps s … s + PROMOTE - 1, column by column, so that few sums wait for their rounding.
#if PROMOTE
#define STEPS PROMOTE
#define START Sums(0.0)
#define FINISH(i, j) acc[i][j] += sum[i];
#else
#define STEPS 1
#define START acc[i][j]
#define FINISH(i, j) acc[i][j] = sum[i];
#endif
#if PACKED
#define PIECE_B_OF(f, t, stage, s, p, j) RING_B(f, t, s, p, j)
#else
#define PIECE_B_OF(f, t, stage, s, p, j) LOAD_B(f, stage, s, p, j)
#endif
#define MULTIPLY(t, stage, s0) {                                                                   \
    FragA fa[STEPS][PIECES][COUNT_M];                                                              \
    FOR(s, STEPS) FOR(p, PIECES) FOR(i, COUNT_M) LOAD_A(fa[s][p][i], stage, (s0) + s, p, i)        \
    FOR(j, COUNT_N) {                                                                              \
      Sums sum[COUNT_M];                                                                           \
      FOR(i, COUNT_M) sum[i] = START;                                                              \
      FOR(s, STEPS) {                                                                              \
        FragB fb[PIECES];                                                                          \
        FOR(p, PIECES) PIECE_B_OF(fb[p], t, stage, (s0) + s, p, j)                                 \
        [[unroll]] for (int order = PIECES - 1; order >= 0; order--)                               \
          [[unroll]] for (int p = 0; p <= order; p++)                                              \
            FOR(i, COUNT_M) sum[i] = coopMatMulAdd(fa[s][p][i], fb[order - p], sum[i]);            \
      }                                                                                            \
      FOR(i, COUNT_M) { FINISH(i, j) }                                                             \
    }                                                                                              \
  }
#define COMPUTE(t, stage) { [[unroll]] for (uint s0 = 0u; s0 < KS; s0 += STEPS) MULTIPLY(t, stage, s0) }
#if STAGES == 1
#define TILE(t) STASH(0) barrier(); FETCH(tt + t + 1) COMPUTE(t, 0) NEXT_TILE barrier();
  FETCH(0u)
#else
#define TILE(t) FETCH(tt + t + 1) COMPUTE(t, t) NEXT_TILE STASH(1 - t) barrier();
  FETCH(0u)
  STASH(0)
  barrier();
#endif
#elif PACKED
#define COMPUTE(t) FOR(s, KS) {                                                                    \
    FragA fa[COUNT_M];                                                                             \
    FragB fb[COUNT_N];                                                                             \
    FOR(i, COUNT_M) LOAD_A(fa[i], t, s, 0, i)                                                      \
    FOR(j, COUNT_N) RING_B(fb[j], t, s, 0, j)                                                      \
    FOR(j, COUNT_N) FOR(i, COUNT_M) acc[i][j] = coopMatMulAdd(fa[i], fb[j], acc[i][j]);            \
  }
#define TILE(t) STASH(1 - t) FETCH(tt + t + 2) COMPUTE(t) NEXT_TILE barrier();
  FETCH(0u)
  STASH(0)
  FETCH(1u)
  barrier();
#else
  FragA fa[1 + AHEAD][COUNT_M];
  FragB fb[1 + AHEAD][COUNT_N];
#define FRAGS(slot, stage, s) { FOR(i, COUNT_M) LOAD_A(fa[slot][i], stage, s, 0, i) \
                                FOR(j, COUNT_N) LOAD_B(fb[slot][j], stage, s, 0, j) }
#define STEP(slot) FOR(j, COUNT_N) FOR(i, COUNT_M) \
    acc[i][j] = coopMatMulAdd(fa[slot][i], fb[slot][j], acc[i][j]);
#if AHEAD
// Tile tt + t, whose first fragments are in slot p.
#define TILE_FROM(t, p)                                                             \
  FOR(s, KS - 1) { FRAGS((p + s + 1) % 2, t, s + 1) STEP((p + s) % 2) }             \
  barrier();                                                                        \
  FRAGS((p + KS) % 2, 1 - t, 0)                                                     \
  STEP((p + KS - 1) % 2)                                                            \
  STASH(t)                                                                          \
  FETCH(tt + t + 3)
#define TILE(t) TILE_FROM(t, (t == 0 ? 0 : KS % 2))
  FETCH(0u)
  STASH(0)
  FETCH(1u)
  STASH(1)
  FETCH(2u)
  barrier();
  FRAGS(0, 0, 0)
#else
#define TILE(t) STASH(1 - t) FETCH(tt + t + 2) FOR(s, KS) { FRAGS(0, t, s) STEP(0) } barrier();
  FETCH(0u)
  STASH(0)
  FETCH(1u)
  barrier();
#endif
#endif
  for (uint tt = 0u; tt < TILES_K; tt += 2u) {
    TILE(0)
    TILE(1)
  }
  STORE_TILE(z, bm * BM, bn * BN)
}
