// The loads of a quantised b for matmul_matrix.comp (matmul_matrix_load.glsl): an invocation has
// runs of 16 elements of columns, as they lie, on their way, and makes floats of them where it
// stashes them (quantised_chunks.glsl). Groups have a multiple of 16 steps of k, and k is one.
// SLOTS tiles of k are on their way, 1 or 2; RUNS: those of an invocation in a tile.
//   fetch_b_into(t, slot): its runs of tile t of k,
//   stash_b(stage): from slot `stage` % SLOTS into a stage of shared memory.

const uint RUNS_K = BK / 16, COLS_AT_ONCE = LOCAL_X / RUNS_K;
uint run_b, column_b, dst_b, frag_b;
Run rb[SLOTS][RUNS];

void find_b() {
#if BK >= 64
  // Eight neighbours have four runs of each of two columns, whose stores are in different banks.
  run_b = tid % 4 + tid / 8 % (RUNS_K / 4) * 4;
  column_b = tid / 4 % 2 + tid / (RUNS_K * 2) * 2;
#else
  run_b = tid % RUNS_K;
  column_b = tid / RUNS_K;
#endif
  frag_b = BASE_B + wn * WN * LDB + wk * STEP_UVEC4S;
  dst_b = BASE_B + column_b * LDB + run_b * 2;
}

// what(0, t, slot); … for each run: written out, as compilers may keep a loop around so much.
#if RUNS == 1
#define EACH_RUN(what, t, slot) what(0, t, slot);
#elif RUNS == 2
#define EACH_RUN(what, t, slot) what(0, t, slot); what(1, t, slot);
#elif RUNS == 4
#define EACH_RUN(what, t, slot) what(0, t, slot); what(1, t, slot); what(2, t, slot);              \
    what(3, t, slot);
#endif

void fetch_run(uint i, uint t, uint slot) {
  rb[slot][i] = load_run(min(bn * BN + column_b + i * COLS_AT_ONCE, n_count - 1),
      t * BK + run_b * 16);
}
void fetch_b_into(uint t, uint slot) {
  const uint at = TILE_AT(t);
  EACH_RUN(fetch_run, at, slot)
}
void fetch_b(uint t) { fetch_b_into(t, 0); }

void stash_half(uint i, uint h, uint stage, uint slot) {
  Chunk c = chunk_of(rb[slot][i], h);
  FOR(p, PIECES) sh[stage * STAGE + p * PIECE_B + dst_b + i * (COLS_AT_ONCE * LDB) + h] =
      split_chunk(c, p);
}
void stash_run(uint i, uint stage, uint slot) {
  stash_half(i, 0, stage, slot);
  stash_half(i, 1, stage, slot);
}
void stash_b(uint stage) { EACH_RUN(stash_run, stage, stage % SLOTS) }
