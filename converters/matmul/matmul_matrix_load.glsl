// The loads of matmul_matrix.comp, included in its main: an invocation's chunks of tile (bm, bn) of
// matrix z go through registers into shared memory. Here are its pointers and registers, and
//   FETCH(t): its chunks of tile t of k from memory into registers,
//   STASH(stage): from there, in pieces, into a stage of shared memory.
// frag_a, frag_b: where the fragments of subgroup (wm, wn, wk) begin in a stage.

  const uint col_a = tid % (COLS_A / 8), col_b = tid % (COLS_B / 8);

// Chunk i of an invocation: A_AT from the pointer on, of a tile that begins at q; it begins with
// step A_K of k.
#if A_COLS
  const uint row_a = tid / (COLS_A / 8);
  const uint frag_a = wk * 16 * LDA + wm * (WM / 8);
  // A chunk of 8 rows of a; past the last it repeats it.
  tv_chunks pa = tv_chunks(a_ptr) + (BATCH_OFFSET(z, az) / 8 + row_a * LD_A +
                                     min(bm * (BM / 8) + col_a, m_count / 8 - 1));
#define A_AT(i) ((i) * STEP_A * LD_A)
#define A_NEXT (BK * LD_A)
#define A_K(i, tile) ((tile) * BK + row_a + (i) * STEP_A)
#else
  const uint row_a = spread(tid / (COLS_A / 8), COLS_A / 8);
  const uint frag_a = wm * WM * LDA + wk * STEP_UNITS;
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
#define A_K(i, tile) ((tile) * BK + col_a * 8)
#endif
  const uint dst_a = row_a * LDA + col_a;

#if QUANTISED
#include "matmul_quantised_load.glsl"
#elif !PACKED
#if B_COLS
  const uint row_b = spread(tid / (COLS_B / 8), COLS_B / 8);
  const uint frag_b = BASE_B + wn * WN * LDB + wk * STEP_UNITS;
#if IN_RUNS
// Chunks of 16 columns lie side by side.
  tv_chunks pb = tv_chunks(b_ptr) + col_b * 16;
  uint runs_b[NB];
  FOR(i, NB) {
    const uint n = min(bn * BN + row_b + i * STEP_B, n_count - 1);
    runs_b[i] = n / 16 * (LD_B * 16) + n % 16;
  }
#define B_AT(i) runs_b[i]
#define B_NEXT (BK / 8 * 16)
#elif WHOLE_N
  tv_chunks pb = tv_chunks(b_ptr) + (BATCH_OFFSET(z, bz) / 8 + (bn * BN + row_b) * LD_B + col_b);
#define B_AT(i) ((i) * STEP_B * LD_B)
#else
  tv_chunks pb = tv_chunks(b_ptr) + (BATCH_OFFSET(z, bz) / 8 + col_b);
  uint rows_b[NB];
  FOR(i, NB) rows_b[i] = min(bn * BN + row_b + i * STEP_B, n_count - 1) * LD_B;
#define B_AT(i) rows_b[i]
#endif
#if !IN_RUNS
#define B_NEXT (BK / 8)
#endif
#define B_K(i, tile) ((tile) * BK + col_b * 8)
#else
  const uint row_b = tid / (COLS_B / 8);
  const uint frag_b = BASE_B + wk * 16 * LDB + wn * (WN / 8);
  tv_chunks pb = tv_chunks(b_ptr) + (BATCH_OFFSET(z, bz) / 8 + row_b * LD_B +
                                     min(bn * (BN / 8) + col_b, n_count / 8 - 1));
#define B_AT(i) ((i) * STEP_B * LD_B)
#define B_NEXT (BK * LD_B)
#define B_K(i, tile) ((tile) * BK + row_b + (i) * STEP_B)
#endif
  const uint dst_b = BASE_B + row_b * LDB + col_b;
#endif

  Chunk ra[NA];
#if !PACKED && !QUANTISED
  Chunk rb[NB];
#endif

// Chunks r[count] from q on, each where place(i) says, those behind k as zeros. Past the last tile:
// the last again where nobody uses it (no branch, so no copies of registers), else zeros.
#if WHOLE_K
#define TILE_AT(t) min(t, TILES_K - 1)
#define FETCH_CHUNKS(r, count, q, place, first_k, tile, up) FOR(i, count) r[i] = LOAD_CHUNK(q[place(i)]);
#else
#define TILE_AT(t) (t)
#define FETCH_CHUNKS(r, count, q, place, first_k, tile, up) FOR(i, count) { \
    r[i] = ZEROS(up); if (first_k(i, tile) < k_count) r[i] = LOAD_CHUNK(q[place(i)]); }
#endif
// Pieces of the chunks r[count], times the powers of two up[count] where scaled, `step` units
// apart. Of bytes `up` are the bits that make them signed.
#if SCALED
#define SCALE_CHUNK(c, up, i) c.lo *= up[i]; c.hi *= up[i];
#elif BYTES
#define up_a A_FLIP
#define up_b B_FLIP
#define SCALE_CHUNK(c, up, i) c ^= up;
#else
#define SCALE_CHUNK(c, up, i)
#endif
#if BYTES
#define ZEROS(up) uvec4(up)
#else
#define ZEROS(up) NO_CHUNK
#endif
#define STASH_CHUNKS(r, count, up, stage, piece, dst, step) FOR(i, count) { \
    SCALE_CHUNK(r[i], up, i) \
    FOR(p, PIECES) sh[(stage) * STAGE + p * piece + dst + i * step] = split_chunk(r[i], p); }

#define FETCH_A(t) { const uint at = TILE_AT(t); tv_chunks qa = pa + at * A_NEXT; \
                     FETCH_CHUNKS(ra, NA, qa, A_AT, A_K, at, up_a) }
#if PACKED
#define FETCH_B(t)
#define STASH_B(stage)
#elif !QUANTISED
#define FETCH_B(t) { const uint at = TILE_AT(t); tv_chunks qb = pb + at * B_NEXT; \
                     FETCH_CHUNKS(rb, NB, qb, B_AT, B_K, at, up_b) }
#define STASH_B(stage) STASH_CHUNKS(rb, NB, up_b, stage, PIECE_B, dst_b, STEP_B * LDB)
#endif
#define FETCH(t) { FETCH_A(t) FETCH_B(t) }
#define STASH(stage) { STASH_CHUNKS(ra, NA, up_a, stage, PIECE_A, dst_a, STEP_A * LDA) STASH_B(stage) }
