// The products of matmul_matrix.comp, included in its main behind the loads
// (matmul_matrix_load.glsl).
//   FIRST_TILES: what is on its way, or in shared memory, before the first tile,
//   TILE(acc, t, tile): adds the products of tile `tile` of k, in stage t (0, 1), to
//   acc[COUNT_M][COUNT_N], while later tiles are on their way.

// Fragment i (j) of piece p of step s of a stage, from shared memory.
#if A_COLS
#define LOAD_A(f, stage, s, p, i) coopMatLoad(f, sh, frag_a + (stage) * STAGE + (p) * PIECE_A + \
    (s) * WK * 16 * LDA + (i) * 2, LDA, gl_CooperativeMatrixLayoutColumnMajor);
#else
#define LOAD_A(f, stage, s, p, i) coopMatLoad(f, sh, frag_a + (stage) * STAGE + (p) * PIECE_A + \
    (s) * WK * STEP_UNITS + (i) * 16 * LDA, LDA, gl_CooperativeMatrixLayoutRowMajor);
#endif
#if B_COLS
#define LOAD_B(f, stage, s, p, j) coopMatLoad(f, sh, frag_b + (stage) * STAGE + (p) * PIECE_B + \
    (s) * WK * STEP_UNITS + (j) * 16 * LDB, LDB, gl_CooperativeMatrixLayoutColumnMajor);
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
// Steps s0 … s0 + PROMOTE - 1, column by column, so that few sums wait for their rounding.
#if PROMOTE
#define STEPS PROMOTE
#define START(sum) Sums(0.0)
#define FINISH(total, sum) total += sum;
#else
#define STEPS 1
#define START(sum) sum
#define FINISH(total, sum) total = sum;
#endif
#if PACKED
#define PIECE_B_OF(f, t, stage, s, p, j) RING_B(f, t, s, p, j)
#else
#define PIECE_B_OF(f, t, stage, s, p, j) LOAD_B(f, stage, s, p, j)
#endif
#define MULTIPLY(acc, t, stage, s0) {                                                              \
    FragA fa[STEPS][PIECES][COUNT_M];                                                              \
    FOR(s, STEPS) FOR(p, PIECES) FOR(i, COUNT_M) LOAD_A(fa[s][p][i], stage, (s0) + s, p, i)        \
    FOR(j, COUNT_N) {                                                                              \
      Sums sum[COUNT_M];                                                                           \
      FOR(i, COUNT_M) sum[i] = START(acc[i][j]);                                                   \
      FOR(s, STEPS) {                                                                              \
        FragB fb[PIECES];                                                                          \
        FOR(p, PIECES) PIECE_B_OF(fb[p], t, stage, (s0) + s, p, j)                                 \
        [[unroll]] for (int order = PIECES - 1; order >= 0; order--)                               \
          [[unroll]] for (int p = 0; p <= order; p++)                                              \
            FOR(i, COUNT_M) sum[i] = coopMatMulAdd(fa[s][p][i], fb[order - p], sum[i]);            \
      }                                                                                            \
      FOR(i, COUNT_M) { FINISH(acc[i][j], sum[i]) }                                                \
    }                                                                                              \
  }
#define COMPUTE(acc, t, stage) { \
    [[unroll]] for (uint s0 = 0u; s0 < KS; s0 += STEPS) MULTIPLY(acc, t, stage, s0) }
#if STAGES == 1
#define TILE(acc, t, tile) STASH(0) barrier(); FETCH(tile + 1) COMPUTE(acc, t, 0) NEXT_TILE barrier();
#define FIRST_TILES FETCH(FIRST_TILE + 0u)
#else
#define TILE(acc, t, tile) FETCH(tile + 1) COMPUTE(acc, t, t) NEXT_TILE STASH(1 - t) barrier();
#define FIRST_TILES FETCH(FIRST_TILE + 0u) STASH(0) barrier();
#endif
#elif PACKED
#define COMPUTE(acc, t) FOR(s, KS) {                                                               \
    FragA fa[COUNT_M];                                                                             \
    FragB fb[COUNT_N];                                                                             \
    FOR(i, COUNT_M) LOAD_A(fa[i], t, s, 0, i)                                                      \
    FOR(j, COUNT_N) RING_B(fb[j], t, s, 0, j)                                                      \
    FOR(j, COUNT_N) FOR(i, COUNT_M) acc[i][j] = coopMatMulAdd(fa[i], fb[j], acc[i][j]);            \
  }
#define TILE(acc, t, tile) STASH(1 - t) FETCH(tile + 2) COMPUTE(acc, t) NEXT_TILE barrier();
#define FIRST_TILES FETCH(FIRST_TILE + 0u) STASH(0) FETCH(FIRST_TILE + 1u) barrier();
#else
  FragA fa[1 + AHEAD][COUNT_M];
  FragB fb[1 + AHEAD][COUNT_N];
#define FRAGS(slot, stage, s) { FOR(i, COUNT_M) LOAD_A(fa[slot][i], stage, s, 0, i) \
                                FOR(j, COUNT_N) LOAD_B(fb[slot][j], stage, s, 0, j) }
#define STEP(acc, slot) FOR(j, COUNT_N) FOR(i, COUNT_M) \
    acc[i][j] = coopMatMulAdd(fa[slot][i], fb[slot][j], acc[i][j]);
#if AHEAD
// The tile's first fragments are in slot p.
#define TILE_FROM(acc, t, tile, p)                                                  \
  FOR(s, KS - 1) { FRAGS((p + s + 1) % 2, t, s + 1) STEP(acc, (p + s) % 2) }        \
  barrier();                                                                        \
  FRAGS((p + KS) % 2, 1 - t, 0)                                                     \
  STEP(acc, (p + KS - 1) % 2)                                                       \
  STASH(t)                                                                          \
  FETCH(tile + 3)
#define TILE(acc, t, tile) TILE_FROM(acc, t, tile, (t == 0 ? 0 : KS % 2))
#define FIRST_TILES FETCH(FIRST_TILE + 0u) STASH(0) FETCH(FIRST_TILE + 1u) STASH(1) \
                    FETCH(FIRST_TILE + 2u) barrier(); FRAGS(0, 0, 0)
#elif QUANTISED && SLOTS > 1
#define TILE(acc, t, tile) STASH(1 - t) FETCH_A(tile + 2) FETCH_B_INTO(tile + 3, 1 - t) \
    FOR(s, KS) { FRAGS(0, t, s) STEP(acc, 0) } barrier();
#define FIRST_TILES FETCH(FIRST_TILE + 0u) STASH(0) FETCH_A(FIRST_TILE + 1u) \
                    FETCH_B_INTO(FIRST_TILE + 1u, 1) FETCH_B_INTO(FIRST_TILE + 2u, 0) barrier();
#else
#define TILE(acc, t, tile) STASH(1 - t) FETCH(tile + 2) \
    FOR(s, KS) { FRAGS(0, t, s) STEP(acc, 0) } barrier();
#define FIRST_TILES FETCH(FIRST_TILE + 0u) STASH(0) FETCH(FIRST_TILE + 1u) barrier();
#endif
#endif
