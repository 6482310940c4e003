// The products of matmul_matrix.comp, of what its loads (matmul_matrix_load.glsl) bring.
//   FIRST_TILES(fa, fb, first): what is on its way, or in shared memory, before tile `first` of k,
//   TILE(acc, fa, fb, t, tile): adds the products of tile `tile` of k, in stage t (0, 1), to
//   acc[COUNT_M][COUNT_N], while later tiles are on their way.
// SLOTS_OF_FRAGMENTS > 0: fa[SLOTS_OF_FRAGMENTS][COUNT_M] and fb[…][COUNT_N] hold fragments; else
// these names are not used. Macros where matrices are concerned: they stay variables of main, so
// that no driver has to see through arrays of them that are parameters.

// Fragment i (j) of piece p of step s of a stage lies here in shared memory.
#if A_COLS
#define LAYOUT_A gl_CooperativeMatrixLayoutColumnMajor
uint fragment_a(uint stage, uint s, uint p, uint i) {
  return frag_a + stage * STAGE + p * PIECE_A + s * WK * 16 * LDA + i * 2;
}
#else
#define LAYOUT_A gl_CooperativeMatrixLayoutRowMajor
uint fragment_a(uint stage, uint s, uint p, uint i) {
  return frag_a + stage * STAGE + p * PIECE_A + s * WK * STEP_UVEC4S + i * 16 * LDA;
}
#endif
#define LOAD_A(f, stage, s, p, i) coopMatLoad(f, sh, fragment_a(stage, s, p, i), LDA, LAYOUT_A);
#if !PACKED
#if B_COLS
#define LAYOUT_B gl_CooperativeMatrixLayoutColumnMajor
uint fragment_b(uint stage, uint s, uint p, uint j) {
  return frag_b + stage * STAGE + p * PIECE_B + s * WK * STEP_UVEC4S + j * 16 * LDB;
}
#else
#define LAYOUT_B gl_CooperativeMatrixLayoutRowMajor
uint fragment_b(uint stage, uint s, uint p, uint j) {
  return frag_b + stage * STAGE + p * PIECE_B + s * WK * 16 * LDB + j * 2;
}
#endif
#define LOAD_B(f, stage, s, p, j) coopMatLoad(f, sh, fragment_b(stage, s, p, j), LDB, LAYOUT_B);
#endif

#if PACKED
// Lines of 16 columns: [k / 16][PIECES][32] uvec4s. A ring of PACKED steps of them is on its way;
// pp: at this invocation's uvec4 of the tile.
#define LINE (k_steps * (PIECES * 32))
#define RING_AT(s, p, j) ((s) * (WK * PIECES * 32) + (p) * 32 + (j) * LINE)
tv_uvec4s pp;
uvec4 ring[PACKED][PIECES][COUNT_N];
void find_packed() {
  pp = tv_uvec4s(packed_ptr) + (z * packed_z + (bn * (BN / 16) + wn * COUNT_N) * LINE +
                                   wk * (PIECES * 32) +
                               gl_SubgroupInvocationID);
  FOR(r, PACKED) FOR(p, PIECES) FOR(j, COUNT_N) ring[r][p][j] = pp[RING_AT(r, p, j)].v;
}
void next_tile() { pp += KS * (WK * PIECES * 32); }
// The fragment of step s of the tile that pp is at; its place in the ring takes a later one.
#define RING_B(f, t, s, p, j) {                                                                    \
    const uint r = ((t) * KS + (s)) % PACKED;                                                      \
    FRAGMENT(f, ring[r][p][j], pp + RING_AT(s, p, j) - gl_SubgroupInvocationID,                    \
             gl_CooperativeMatrixLayoutColumnMajor)                                                \
    ring[r][p][j] = pp[RING_AT((s) + PACKED, p, j)].v; }
#else
void find_packed() {}
void next_tile() {}
#endif

#if PIECES > 1
#define SLOTS_OF_FRAGMENTS 0
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
    FragA fa_[STEPS][PIECES][COUNT_M];                                                             \
    FOR(s, STEPS) FOR(p, PIECES) FOR(i, COUNT_M) LOAD_A(fa_[s][p][i], stage, (s0) + s, p, i)       \
    FOR(j, COUNT_N) {                                                                              \
      Sums sum[COUNT_M];                                                                           \
      FOR(i, COUNT_M) sum[i] = START(acc[i][j]);                                                   \
      FOR(s, STEPS) {                                                                              \
        FragB fb_[PIECES];                                                                         \
        FOR(p, PIECES) PIECE_B_OF(fb_[p], t, stage, (s0) + s, p, j)                                \
        [[unroll]] for (int order = PIECES - 1; order >= 0; order--)                               \
          [[unroll]] for (int p = 0; p <= order; p++)                                              \
            FOR(i, COUNT_M) sum[i] = coopMatMulAdd(fa_[s][p][i], fb_[order - p], sum[i]);          \
      }                                                                                            \
      FOR(i, COUNT_M) { FINISH(acc[i][j], sum[i]) }                                                \
    }                                                                                              \
  }
#define COMPUTE(acc, t, stage) { \
    [[unroll]] for (uint s0 = 0u; s0 < KS; s0 += STEPS) MULTIPLY(acc, t, stage, s0) }
#if STAGES == 1
#define TILE(acc, fa, fb, t, tile) \
  stash(0); barrier(); fetch(tile + 1); COMPUTE(acc, t, 0) next_tile(); barrier();
#define FIRST_TILES(fa, fb, first) fetch(first);
#else
#define TILE(acc, fa, fb, t, tile) \
  fetch(tile + 1); COMPUTE(acc, t, t) next_tile(); stash(1 - t); barrier();
#define FIRST_TILES(fa, fb, first) fetch(first); stash(0); barrier();
#endif
#elif PACKED
#define SLOTS_OF_FRAGMENTS 0
#define COMPUTE(acc, t) FOR(s, KS) {                                                               \
    FragA fa_[COUNT_M];                                                                            \
    FragB fb_[COUNT_N];                                                                            \
    FOR(i, COUNT_M) LOAD_A(fa_[i], t, s, 0, i)                                                     \
    FOR(j, COUNT_N) RING_B(fb_[j], t, s, 0, j)                                                     \
    FOR(j, COUNT_N) FOR(i, COUNT_M) acc[i][j] = coopMatMulAdd(fa_[i], fb_[j], acc[i][j]);          \
  }
#define TILE(acc, fa, fb, t, tile) stash(1 - t); fetch(tile + 2); COMPUTE(acc, t) next_tile();     \
    barrier();
#define FIRST_TILES(fa, fb, first) fetch(first); stash(0); fetch(first + 1u); barrier();
#else
#define SLOTS_OF_FRAGMENTS (1 + AHEAD)
#define FRAGS(fa, fb, slot, stage, s) { FOR(i, COUNT_M) LOAD_A(fa[slot][i], stage, s, 0, i) \
                                        FOR(j, COUNT_N) LOAD_B(fb[slot][j], stage, s, 0, j) }
#define STEP(acc, fa, fb, slot) FOR(j, COUNT_N) FOR(i, COUNT_M) \
    acc[i][j] = coopMatMulAdd(fa[slot][i], fb[slot][j], acc[i][j]);
#if AHEAD
// The tile's first fragments are in slot p.
#define TILE_FROM(acc, fa, fb, t, tile, p)                                                         \
  FOR(s, KS - 1) { FRAGS(fa, fb, (p + s + 1) % 2, t, s + 1) STEP(acc, fa, fb, (p + s) % 2) }       \
  barrier();                                                                                       \
  FRAGS(fa, fb, (p + KS) % 2, 1 - t, 0)                                                            \
  STEP(acc, fa, fb, (p + KS - 1) % 2)                                                              \
  stash(t);                                                                                        \
  fetch(tile + 3);
#define TILE(acc, fa, fb, t, tile) TILE_FROM(acc, fa, fb, t, tile, (t == 0 ? 0 : KS % 2))
#define FIRST_TILES(fa, fb, first) fetch(first); stash(0); fetch(first + 1u); stash(1); \
                                   fetch(first + 2u); barrier(); FRAGS(fa, fb, 0, 0, 0)
#else
#define STEPS_OF_TILE(acc, fa, fb, t) FOR(s, KS) { FRAGS(fa, fb, 0, t, s) STEP(acc, fa, fb, 0) }
#if QUANTISED && SLOTS > 1
#define TILE(acc, fa, fb, t, tile) \
  stash(1 - t); fetch_a(tile + 2); fetch_b_into(tile + 3, 1 - t); STEPS_OF_TILE(acc, fa, fb, t)    \
      barrier();
#define FIRST_TILES(fa, fb, first) fetch(first); stash(0); fetch_a(first + 1u); \
                                   fetch_b_into(first + 1u, 1); fetch_b_into(first + 2u, 0);       \
                                       barrier();
#else
#define TILE(acc, fa, fb, t, tile) stash(1 - t); fetch(tile + 2); STEPS_OF_TILE(acc, fa, fb, t)    \
    barrier();
#define FIRST_TILES(fa, fb, first) fetch(first); stash(0); fetch(first + 1u); barrier();
#endif
#endif
#endif
