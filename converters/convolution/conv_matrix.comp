// y[n][g][m][p] = bias[g][m] + sum over k of w[g][m][k] * x(n, g, k, p) on matrix units (coopmat):
// rows are output channels, columns the output pixels of all images, k runs over chunks of 8 input
// channels of one tap (FLAT: over (ic, kh, kw) as they come, for few channels). The matrix of
// pixels is gathered into shared memory and never stored; the weight comes in fragment order
// (conv_matrix_pack.comp).
//
// Tiles of BM x BN outputs a workgroup and WM x WN a subgroup, KS steps of 16 k a stage. WK groups
// of subgroups share the stages of k, `share` each, and their sums are added in order. A group
// keeps two stages of pixels in shared memory, or one where it is a single subgroup, which needs no
// barrier. PIECES > 1: operands are fp32 in pieces (matrix.glsl), each step's sum is added outside
// of the units, with rounding. x: any strides; X_LAST: the channels of a pixel are neighbours and
// chunks lie at multiples of a chunk. WHOLE_IC: ic_count is whole chunks. Y_LAST: stores run
// along channels, P4: along pixels, in fours; Y_PIXELS: y is counted by pixels, and stores are of
// four channels.
//
// BYTES: operands are signed bytes (conv_matrix_bytes.glsl), 16 channels a chunk and 32 k a step,
// and sums are int.
//
// DYNAMIC_SCALE: operands are fp32 in float16 pieces. A group multiplies its pixels by the power of
// two that brings the largest so far below 2^15, and its sums with them where a larger one comes,
// as an online softmax does; the weight comes multiplied (conv_matrix_rows.comp). What float16
// loses of numbers below 2^-29 of the largest is bounded for each output in the end; one that is
// not large beside the bound, or not finite, is computed again from the operands. Grid:
// (ceil(columns / BN), ceil(oc_count / BM), groups); local 32 * (BM / WM) * (BN / WN) * WK.

#include "conv_geometry.glsl"
#include "epilogue.glsl"

#if BYTES
const uint CHUNK = 16;  // elements of 16 bytes
#else
const uint CHUNK = 8;
#endif
const uint WARPS_M = BM / WM, WARPS_N = BN / WN, GATHER_THREADS = 32 * WARPS_M * WARPS_N;
// Rows of pixels are an odd number of uvec4s apart, so that matrix loads meet different banks.
const uint LD = KS * 2 + 1, PIECE = BN * LD, STAGE = PIECES * PIECE;
#if Y_PIXELS
const uint SUM_LD = WARPS_M * 4 + 1, SUMS = WK * BN * SUM_LD;
#else
const uint SUM_LD = BN / 4 + 1, SUMS = WK * WARPS_M * 16 * SUM_LD;
#endif
#if BM == WM && BN == WN
#define STAGES 1
#else
#define STAGES 2
#endif
const uint TILES = STAGES * WK * STAGE;
shared uvec4 sh[TILES > SUMS ? TILES : SUMS];

#include "matrix.glsl"

#if DYNAMIC_SCALE
const uint WARPS = WARPS_M * WARPS_N * WK;
shared uint tops[WARPS], leasts[WARPS];
#endif

#include "conv_matrix_gather.glsl"
#if BYTES
#include "conv_matrix_bytes.glsl"
#endif
#include "conv_matrix_end.glsl"

// uvec4s of a packed fragment, all pieces, and of a line of fragments along k.
#define FRAG (PIECES * 32)
#define LINE (k_steps * FRAG)
#if STAGES == 1
#define SYNC subgroupBarrier();
#else
#define SYNC barrier();
#endif

// Where an invocation is: tile (m0, c0) of group g; its subgroup has tile (wm, wn) of that, and
// part wk of k. gather_thread: its number among those that gather a stage.
uint lane, warp, wk, wm, wn, gather_thread, g, c0, m0;

void find_tile() {
  lane = gl_SubgroupInvocationID;
  warp = gl_SubgroupID;
  wk = warp / (WARPS_M * WARPS_N);
  wm = warp % WARPS_M;
  wn = warp / WARPS_M % WARPS_N;
  gather_thread = warp % (WARPS_M * WARPS_N) * 32 + lane;
  g = gl_WorkGroupID.z;
  c0 = gl_WorkGroupID.x * BN;
  m0 = gl_WorkGroupID.y * BM;
}

#include "conv_matrix_staging.glsl"
#include "conv_matrix_multiply.glsl"

void main() {
  find_tile();
  find_pixels();
  find_weights();
  Sums acc[COUNT_M][COUNT_N];
  EACH_TILE acc[i][j] = NO_SUMS;
  fetch_pixels(0u);
  FOR(s, KS) fetch_weights(0u, s);
  STASH(acc, 0u)
  SYNC
  uint t = 0u;
  for (; t + 1u < share; t++) {
    fetch_pixels(t + 1u);
    COMPUTE(acc, t, fetch_next)
#if STAGES == 1
    SYNC
    STASH(acc, 0u)
#else
    STASH(acc, (t + 1u) & 1u)
#endif
    SYNC
  }
  COMPUTE(acc, t, fetch_none)

  Range x;
  FIND_RANGE(x, acc, top, least, warp, lane)
#if BYTES
  finish_x_sums();
#endif
  STORE_TILE(acc, g, m0, c0, x, wm, wn, wk)
}
