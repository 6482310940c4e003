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
// Rows of the patch are an odd number of uvec4s apart.
const uint LDA = UNROLL * 2 + 1, PIECE_A = A_PACKED == 1 || DIRECT == 1 ? 0 : WM * LDA;
const uint ROWS = PIECES * PIECE_A * WARPS_M * WARPS_N * WK;
const uint SPACE = WK > 1 ? WK * WARPS_M * STRIP * 16 * (BN / 4 + 1) :
    WARPS_M * WARPS_N * 16 * (WN / 4 + 1);
shared uvec4 sh[ROWS > SPACE ? ROWS : SPACE];

#define PATCH 1
#define K_OF_SHARE (share * (WK * 16))
#include "matrix.glsl"

// uvec4s of a packed fragment and of a line of them: 16 rows or columns, [k / 16][PIECES][32].
#define FRAG (PIECES * 32)
#define LINE (k_steps * FRAG)

// Adds the products of pieces fa, fb, column by column, to acc; PROMOTE: to sums that start at 0,
// which are added outside of the units.
#define ADD_PIECES(to, fa, fb, i, j)                                                           \
    [[unroll]] for (int order = PIECES - 1; order >= 0; order--)                               \
      [[unroll]] for (int p = 0; p <= order; p++)                                              \
        FOR(i, COUNT_M) to = coopMatMulAdd(fa[p][i], fb[order - p][j], to);
#if PROMOTE
#define MULTIPLY(acc, fa, fb) FOR(j, COUNT_N) {                                                \
    Sums sum[COUNT_M]; FOR(i, COUNT_M) sum[i] = Sums(0.0);                                     \
    ADD_PIECES(sum[i], fa, fb, i, j)                                                           \
    FOR(i, COUNT_M) acc[i][j] += sum[i];                                                       \
  }
#else
#define MULTIPLY(acc, fa, fb) FOR(j, COUNT_N) { ADD_PIECES(acc[i][j], fa, fb, i, j) }
#endif
#if DIRECT
#include "direct_load.glsl"
#endif

#if SPLIT > 1
#define FIRST_STEP ((tv_share * WK + wk) * share)
#else
#define FIRST_STEP (wk * share)
#endif

// Where an invocation is: tile (bm, bn) of matrix z; its subgroup has tile (wm, wn) of that, whose
// first output is (m0, n0), and part wk of k.
uint z, bm, bn, lane, warp, wk, wm, wn, m0, n0;

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
  lane = gl_SubgroupInvocationID;
  warp = gl_SubgroupID;
  wk = warp / (WARPS_M * WARPS_N);
  wm = warp % WARPS_M;
  wn = warp / WARPS_M % WARPS_N;
  m0 = bm * BM + wm * WM;
  n0 = bn * BN + wn * WN;
}

// A ring of fragments of b; pb: at this invocation's uvec4 of the block.
tv_uvec4s pb;
uvec4 gb[RING][PIECES][COUNT_N];

void fetch_b(uint slot, uint step) {
  FOR(p, PIECES) FOR(j, COUNT_N) gb[slot][p][j] = pb[step * FRAG + j * LINE + p * 32].v;
}
void start_b() {
  pb = tv_uvec4s(packed_ptr) + (z * packed_z + n0 / 16 * LINE + FIRST_STEP * FRAG + lane);
  FOR(r, RING) fetch_b(r, r);
}
#define LOAD_B(fb, u) FOR(p, PIECES) FOR(j, COUNT_N) {                                         \
    FRAGMENT(fb[p][j], gb[(u) % RING][p][j], pb + ((u) * FRAG + j * LINE + p * 32) - lane,     \
             gl_CooperativeMatrixLayoutColumnMajor) }

#include "matmul_fragments_a.glsl"

void main() {
  find_tile();
  Sums acc[COUNT_M][COUNT_N];
  EACH_TILE acc[i][j] = Sums(0.0);
  start_b();
  start_a();
#if DIRECT
  const bool direct = lies_as_loaded(warp * 32u);  // asked for at the end: no load waits for it
#endif
  for (uint s = 0u; s < share; s += UNROLL) {
    begin_block_a(s);
    FOR(u, UNROLL) {
      FragA fa[PIECES][COUNT_M];
      FragB fb[PIECES][COUNT_N];
      split_a(u);
      LOAD_A(fa, u)
      LOAD_B(fb, u)
      fetch_b(u % RING, u + RING);
      next_a(u);
      MULTIPLY(acc, fa, fb)
    }
    pb += UNROLL * FRAG;
    end_block_a();
  }
#if DIRECT
  if (!direct) { SUM_GATHERED(acc, BATCH_OFFSET(z, az), m0, FIRST_STEP, pb, warp * 32u, lane) }
#endif
  STORE_TILE(acc, z, bm * BM, bn * BN, wm, wn, wk)
}
