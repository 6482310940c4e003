// The loads of a quantised b for matmul_matrix.comp, included in its main (matmul_matrix_load.glsl): an
// invocation has runs of 16 elements of columns, as they lie, on their way, and makes floats of them
// where it stashes them (quantised_chunks.glsl). Groups have a multiple of 16 steps of k, and k is one. SLOTS
// tiles of k are on their way, 1 or 2; RUNS: those of an invocation in a tile.
//   FETCH_B_INTO(t, slot): its runs of tile t of k,
//   STASH_B(stage): from slot `stage` % SLOTS into a stage of shared memory.

  // Eight neighbours have four runs of each of two columns, whose stores are in different banks.
  const uint RUNS_K = BK / 16, COLS_AT_ONCE = LOCAL_X / RUNS_K;
#if BK >= 64
  const uint run_b = tid % 4 + tid / 8 % (RUNS_K / 4) * 4, column_b = tid / 4 % 2 + tid / (RUNS_K * 2) * 2;
#else
  const uint run_b = tid % RUNS_K, column_b = tid / RUNS_K;
#endif
  const uint frag_b = BASE_B + wn * WN * LDB + wk * STEP_UNITS;
  const uint dst_b = BASE_B + column_b * LDB + run_b * 2;
  Run rb[SLOTS][RUNS];

// what(0, t, slot) … for each run: written out, as compilers may keep a loop around so much.
#if RUNS == 1
#define EACH_RUN(what, t, slot) what(0, t, slot)
#elif RUNS == 2
#define EACH_RUN(what, t, slot) what(0, t, slot) what(1, t, slot)
#elif RUNS == 4
#define EACH_RUN(what, t, slot) what(0, t, slot) what(1, t, slot) what(2, t, slot) what(3, t, slot)
#endif
#define FETCH_RUN(i, t, slot) rb[slot][i] = load_run( \
    min(bn * BN + column_b + i * COLS_AT_ONCE, n_count - 1), (t) * BK + run_b * 16);
#define STASH_HALF(i, h, stage, slot) { \
    Chunk c_ = chunk_of(rb[slot][i], h); \
    FOR(p, PIECES) sh[(stage) * STAGE + p * PIECE_B + dst_b + i * (COLS_AT_ONCE * LDB) + h] = split_chunk(c_, p); }
#define STASH_RUN(i, stage, slot) STASH_HALF(i, 0, stage, slot) STASH_HALF(i, 1, stage, slot)

#define FETCH_B_INTO(t, slot) { const uint at = TILE_AT(t); EACH_RUN(FETCH_RUN, at, slot) }
#define FETCH_B(t) FETCH_B_INTO(t, 0)
#define STASH_B(stage) EACH_RUN(STASH_RUN, stage, (stage) % SLOTS)
