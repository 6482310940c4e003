// y[z][m][n] = sum over k of a[z][m][k] * b[z][k][n] on matrix units, sums in fp32.
//
// Tiles of BM x BN outputs a workgroup and WM x WN a subgroup, BK steps of k at a time through two
// buffers of shared memory with one barrier a tile. WK subgroups split each tile of k. AHEAD:
// fragments are loaded a step ahead, across the barrier. PACKED n: b comes in fragment order
// (matmul_pack.comp), straight into registers, n steps of 16 ahead; 0: it goes through shared
// memory.
// A_COLS: neighbours in memory are those of a column of a, else of a row; B_COLS likewise. PIECES >
// 1: a and b are fp32 (matrix.glsl), with STAGES buffers of shared memory, 1 or 2; PROMOTE n: the
// units, which cut their sums, add n steps of 16 only, the rest is added outside. WHOLE_M, WHOLE_N,
// WHOLE_K: m, n, k are multiples of BM, BN, 2 BK. QUANTISED: b is packed integers, which become
// floats on their way into shared memory (matmul_quantised_load.glsl). BYTES: a and b are bytes,
// and k counts pairs of them (matrix.glsl, matmul_integer_shift.glsl). STEP_UVEC4S: uvec4s
// of a row that a matrix has. IN_RUNS: b as matmul_integer_pack.comp brings it into runs.
// SPLIT workgroups share the tiles of k, `share` each, an even number, and write sums for
// matmul_split_k.comp; WHOLE_K: k is then a multiple of all of them. GROUP: tile rows walked
// together, for the cache. Addresses are written so that what is known at compile time ends up in
// an instruction's offset.
// Grid: (tiles of m * tiles of n, 1, SPLIT * z); local 32 * (BM / WM) * (BN / WN) * WK.

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
// Shared rows are an odd number of uvec4s apart, so that the 8 rows of a matrix load
// fall into different banks.
const uint LDA = COLS_A / 8 + 1, LDB = COLS_B / 8 + 1;
const uint PIECE_A = ROWS_A * LDA, PIECE_B = ROWS_B * LDB;
const uint BASE_B = PIECES * PIECE_A, STAGE = BASE_B + (PACKED > 0 ? 0 : PIECES * PIECE_B);
const uint SPACE = WK > 1 ? WK * WARPS_M * STRIP * 16 * (BN / 4 + 1) :
    WARPS_M * WARPS_N * 16 * (WN / 4 + 1);
shared uvec4 sh[STAGES * STAGE > SPACE ? STAGES * STAGE : SPACE];

#define PATCH 1
#define K_OF_SHARE (share * BK)
#if QUANTISED
#include "quantised_words.glsl"
#endif
#if BYTES
#include "matmul_integer_shift.glsl"
#endif
#include "matrix.glsl"
#if QUANTISED
#include "quantised_chunks.glsl"
#endif

const uint KS = BK / (8 * STEP_UVEC4S) / WK;
#define TILES_K ((k_count + BK - 1) / BK)
#if SPLIT > 1
#define FIRST_TILE (tv_share * share)
#define TILES_OF_SHARE share
#else
#define FIRST_TILE 0u
#define TILES_OF_SHARE TILES_K
#endif

// Where an invocation is: tile (bm, bn) of matrix z; its subgroup has tile (wm, wn) of that, and
// part wk of k.
uint z, bm, bn, tid, wm, wn, wk;

void find_tile() {
  const uint tiles_m = (m_count + BM - 1) / BM, tiles_n = (n_count + BN - 1) / BN;
  const uint id = gl_WorkGroupID.x;
#if SPLIT > 1
  z = gl_WorkGroupID.z % matrices;
  tv_share = gl_WorkGroupID.z / matrices;
#else
  z = gl_WorkGroupID.z;
#endif
  const uint first = id / (GROUP * tiles_n) * GROUP, rows = min(GROUP, tiles_m - first);
  const uint rest = id % (GROUP * tiles_n);
  bm = first + rest % rows;
  bn = rest / rows;
  tid = gl_LocalInvocationID.x;
  const uint warp = gl_SubgroupID;
  wk = warp / (WARPS_M * WARPS_N);
  wm = warp % WARPS_M;
  wn = warp / WARPS_M % WARPS_N;
}

#include "matmul_matrix_load.glsl"
#include "matmul_matrix_multiply.glsl"

void main() {
  find_tile();
  find_a();
  find_b();
  Sums acc[COUNT_M][COUNT_N];
  EACH_TILE acc[i][j] = NO_SUMS;
  find_scales();
  find_packed();
  start_sums();
#if SLOTS_OF_FRAGMENTS > 0
  FragA fa[SLOTS_OF_FRAGMENTS][COUNT_M];
  FragB fb[SLOTS_OF_FRAGMENTS][COUNT_N];
#endif
  FIRST_TILES(fa, fb, FIRST_TILE)
  for (uint tt = 0u; tt < TILES_OF_SHARE; tt += 2u) {
    TILE(acc, fa, fb, 0, FIRST_TILE + tt)
    TILE(acc, fa, fb, 1, FIRST_TILE + tt + 1)
  }
  finish_sums();
  STORE_TILE(acc, z, bm * BM, bn * BN, wm, wn, wk)
}
