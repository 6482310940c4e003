// The loads of matmul_matrix.comp: an invocation's chunks of a tile of k go through registers into
// shared memory.
//   find_a(), find_b(): which chunks those are, and where fragments begin in a stage,
//   fetch(t): tile t of k from memory into registers,
//   stash(stage): from there, in pieces, into a stage of shared memory.

// The row that an invocation copies: 8 neighbours take rows 8 / (rows they cover) apart, which
// avoids bank conflicts.
uint spread(uint q, uint chunks) {
  const uint covered = chunks >= 8 ? 1 : 8 / chunks;
  return q / 8 * 8 + q % covered * (8 / covered) + q % 8 / covered;
}

const uint NA = BM * BK / 8 / LOCAL_X, NB = BN * BK / 8 / LOCAL_X;
const uint STEP_A = LOCAL_X / (COLS_A / 8), STEP_B = LOCAL_X / (COLS_B / 8);
#define LD_A (a_ld / 8)
#define LD_B (b_ld / 8)

// Chunks of a: (row_a, col_a) of a tile and those STEP_A rows apart, which go to dst_a … of a
// stage. Number i lies place_a(i) from pa on, that of the next tile A_NEXT behind, and begins with
// step step_a(i, tile) of k.
// frag_a: where the fragments of the subgroup begin in a stage.
uint row_a, col_a, dst_a, frag_a;
tv_chunks pa;
Chunk ra[NA];
// The same for b where it comes as chunks.
#if !PACKED && !QUANTISED
uint row_b, col_b, dst_b, frag_b;
tv_chunks pb;
Chunk rb[NB];
#endif

#if A_COLS
#define A_NEXT (BK * LD_A)
void find_a() {
  col_a = tid % (COLS_A / 8);
  row_a = tid / (COLS_A / 8);
  dst_a = row_a * LDA + col_a;
  frag_a = wk * 16 * LDA + wm * (WM / 8);
  // A chunk of 8 rows of a; past the last it repeats it.
  pa = tv_chunks(a_ptr) + (BATCH_OFFSET(z, az) / 8 + row_a * LD_A +
      min(bm * (BM / 8) + col_a, m_count / 8 - 1));
}
uint place_a(uint i) { return i * STEP_A * LD_A; }
uint step_a(uint i, uint tile) { return tile * BK + row_a + i * STEP_A; }
#else
#define A_NEXT (BK / 8)
#if !WHOLE_M
uint rows_a[NA];
#endif
void find_a() {
  col_a = tid % (COLS_A / 8);
  row_a = spread(tid / (COLS_A / 8), COLS_A / 8);
  dst_a = row_a * LDA + col_a;
  frag_a = wm * WM * LDA + wk * STEP_UVEC4S;
#if WHOLE_M
  pa = tv_chunks(a_ptr) + (BATCH_OFFSET(z, az) / 8 + (bm * BM + row_a) * LD_A + col_a);
#else
  pa = tv_chunks(a_ptr) + (BATCH_OFFSET(z, az) / 8 + col_a);
  FOR(i, NA) rows_a[i] = min(bm * BM + row_a + i * STEP_A, m_count - 1) * LD_A;
#endif
}
#if WHOLE_M
uint place_a(uint i) { return i * STEP_A * LD_A; }
#else
uint place_a(uint i) { return rows_a[i]; }
#endif
uint step_a(uint i, uint tile) { return tile * BK + col_a * 8; }
#endif

// Chunks r[count] from q on, each where place(i) says, those behind k as zeros. Past the last tile:
// the last again where nobody uses it (no branch, so no copies of registers), else zeros.
#if WHOLE_K
#define TILE_AT(t) min(t, TILES_K - 1)
#define FETCH_CHUNKS(r, count, q, place, first_k, tile, up)                                        \
  FOR(i, count) r[i] = LOAD_CHUNK(q[place(i)]);
#else
#define TILE_AT(t) (t)
#define FETCH_CHUNKS(r, count, q, place, first_k, tile, up) FOR(i, count) { \
    r[i] = ZEROS(up); if (first_k(i, tile) < k_count) r[i] = LOAD_CHUNK(q[place(i)]); }
#endif
// Pieces of the chunks r[count], times the powers of two up[count] where scaled, `step` uvec4s
// apart. Of bytes `up` are the bits that make them signed.
#if SCALED
#include "matmul_matrix_scale.glsl"
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

void fetch_a(uint t) {
  const uint at = TILE_AT(t);
  tv_chunks qa = pa + at * A_NEXT;
  FETCH_CHUNKS(ra, NA, qa, place_a, step_a, at, up_a)
}
// Of bytes that the other operand's shift asks for (matmul_integer_shift.glsl): sums of the chunks
// that have been copied. What is fetched past the last tile does not count.
#if BYTES
#define ADD_SUMS(sums, r, count, stashed) { \
    if (stashed < TILES_K) { FOR(i, count) sums[i] += byte_sum(r[i]); } \
    stashed++; }
#define SHARE_SUMS(parts, sums, count, row, col, chunks, step) \
  FOR(i, count) parts[(row + i * step) * (chunks) + col] = sums[i];
#if SUMS_A
int sums_a[NA];
uint stashed_a;
#endif
#if SUMS_B
int sums_b[NB];
uint stashed_b;
#endif
#endif

void stash_a(uint stage) {
  STASH_CHUNKS(ra, NA, up_a, stage, PIECE_A, dst_a, STEP_A * LDA)
#if BYTES && SUMS_A
  if (b_is_shifted) ADD_SUMS(sums_a, ra, NA, stashed_a)
#endif
}

#if PACKED
// b goes straight into registers (matmul_matrix_multiply.glsl).
void find_b() {}
void fetch_b(uint t) {}
void stash_b(uint stage) {}
#elif QUANTISED
#include "matmul_quantised_load.glsl"
#else
#if !B_COLS
#define B_NEXT (BK * LD_B)
void find_b() {
  col_b = tid % (COLS_B / 8);
  row_b = tid / (COLS_B / 8);
  dst_b = BASE_B + row_b * LDB + col_b;
  frag_b = BASE_B + wk * 16 * LDB + wn * (WN / 8);
  pb = tv_chunks(b_ptr) + (BATCH_OFFSET(z, bz) / 8 + row_b * LD_B +
      min(bn * (BN / 8) + col_b, n_count / 8 - 1));
}
uint place_b(uint i) { return i * STEP_B * LD_B; }
uint step_b(uint i, uint tile) { return tile * BK + row_b + i * STEP_B; }
#else
#if IN_RUNS || !WHOLE_N
uint rows_b[NB];
#endif
#if IN_RUNS
// Chunks of 16 columns lie side by side.
#define B_NEXT (BK / 8 * 16)
void find_rows_b() {
  pb = tv_chunks(b_ptr) + col_b * 16;
  FOR(i, NB) {
    const uint n = min(bn * BN + row_b + i * STEP_B, n_count - 1);
    rows_b[i] = n / 16 * (LD_B * 16) + n % 16;
  }
}
uint place_b(uint i) { return rows_b[i]; }
#elif WHOLE_N
#define B_NEXT (BK / 8)
void find_rows_b() {
  pb = tv_chunks(b_ptr) + (BATCH_OFFSET(z, bz) / 8 + (bn * BN + row_b) * LD_B + col_b);
}
uint place_b(uint i) { return i * STEP_B * LD_B; }
#else
#define B_NEXT (BK / 8)
void find_rows_b() {
  pb = tv_chunks(b_ptr) + (BATCH_OFFSET(z, bz) / 8 + col_b);
  FOR(i, NB) rows_b[i] = min(bn * BN + row_b + i * STEP_B, n_count - 1) * LD_B;
}
uint place_b(uint i) { return rows_b[i]; }
#endif
uint step_b(uint i, uint tile) { return tile * BK + col_b * 8; }
void find_b() {
  col_b = tid % (COLS_B / 8);
  row_b = spread(tid / (COLS_B / 8), COLS_B / 8);
  dst_b = BASE_B + row_b * LDB + col_b;
  frag_b = BASE_B + wn * WN * LDB + wk * STEP_UVEC4S;
  find_rows_b();
}
#endif

void fetch_b(uint t) {
  const uint at = TILE_AT(t);
  tv_chunks qb = pb + at * B_NEXT;
  FETCH_CHUNKS(rb, NB, qb, place_b, step_b, at, up_b)
}
void stash_b(uint stage) {
  STASH_CHUNKS(rb, NB, up_b, stage, PIECE_B, dst_b, STEP_B * LDB)
#if BYTES && SUMS_B
  ADD_SUMS(sums_b, rb, NB, stashed_b)
#endif
}
#endif

void fetch(uint t) {
  fetch_a(t);
  fetch_b(t);
}
void stash(uint stage) {
  stash_a(stage);
  stash_b(stage);
}

#if BYTES
void start_sums() {
#if SUMS_A
#if B_ANY
  b_is_shifted = b_any_raw(0u) != 0;
#endif
  FOR(i, NA) sums_a[i] = 0;
  stashed_a = 0u;
#endif
#if SUMS_B
  FOR(i, NB) sums_b[i] = 0;
  stashed_b = 0u;
#endif
}
// Between barriers of the workgroup.
void finish_sums() {
#if SUMS_A
  if (b_is_shifted) SHARE_SUMS(parts_a, sums_a, NA, row_a, col_a, COLS_A / 8, STEP_A)
#endif
#if SUMS_B
  SHARE_SUMS(parts_b, sums_b, NB, row_b, col_b, COLS_B / 8, STEP_B)
#endif
#if SUMS_A || SUMS_B
  barrier();
#endif
#if SUMS_A
  if (b_is_shifted) ADD_PARTS(parts_a, ROWS_A, COLS_A / 8)
#endif
#if SUMS_B
  ADD_PARTS(parts_b, ROWS_B, COLS_B / 8)
#endif
}
#else
void start_sums() {}
void finish_sums() {}
#endif

#if SCALED
void find_scales() {
  find_scales_of_a();
#if !PACKED
  find_scales_of_b();
#endif
}
#else
void find_scales() {}
#endif
