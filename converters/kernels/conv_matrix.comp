// y[n][g][m][p] = bias[g][m] + sum over k of w[g][m][k] * x(n, g, k, p) on matrix units: rows are
// output channels, columns the output pixels of all images, k runs over chunks of 8 input channels of
// one tap (FLAT: over (ic, kh, kw) as they come, for few channels). The matrix of pixels is gathered
// into shared memory and never stored; the weight comes in fragment order (conv_matrix_pack.comp).
//
// Tiles of BM x BN outputs a workgroup and WM x WN a subgroup, KS steps of 16 k a stage. WK groups of
// subgroups share the stages of k, `share` each, and their sums are added in order. A group keeps two
// stages of pixels in shared memory, or one where it is a single subgroup, which needs no barrier. PIECES > 1: operands are fp32 in pieces (matrix.glsl), each step's sum is added outside of the
// units, with rounding. x: any strides. WHOLE_IC: ic_count is a multiple of 8; P4: the pixels of an
// image are a multiple of 4.
// Grid: (ceil(columns / BN), ceil(oc_count / BM), groups); local 32 * (BM / WM) * (BN / WN) * WK.

#include "conv_geometry.glsl"

const uint WARPS_M = BM / WM, WARPS_N = BN / WN, SHARERS = 32 * WARPS_M * WARPS_N;
// Rows of pixels are an odd number of units apart, so that matrix loads meet different banks.
const uint LD = KS * 2 + 1, PIECE = BN * LD, STAGE = PIECES * PIECE;
const uint SUM_LD = BN / 4 + 1, SUMS = WK * WARPS_M * 16 * SUM_LD;
#if BM == WM && BN == WN
#define STAGES 1
#else
#define STAGES 2
#endif
const uint TILES = STAGES * WK * STAGE;
shared uvec4 sh[TILES > SUMS ? TILES : SUMS];

#include "matrix.glsl"

// Each sharer of a stage gathers PX columns, and of each NC of the stage's chunks of 8 k.
const uint CHUNKS = KS * 2, EACH = SHARERS > BN ? SHARERS / BN : 1;
const uint PX = SHARERS > BN ? 1 : BN / SHARERS, NC = CHUNKS / EACH;

#if PIECES > 1
#define Raw float
#define RAW_LOAD(at) x_raw(at)
#else
#define Raw uint
#define RAW_LOAD(at) uint(x_ptr.v[at])
#endif

/// Where the window of a column begins.
struct Column {
  uint base;
  int ih, iw;
  bool valid;
};

Column column_of(uint g, uint c) {
  Column r;
  const uint pixels = out_h * out_w, image = c / pixels, p = c - image * pixels, oh = p / out_w;
  r.valid = c < columns;
  r.ih = int(oh * stride_h) - pad_h;
  r.iw = int((p - oh * out_w) * stride_w) - pad_w;
  r.base = image * x_n + g * ic_count * x_c;
  return r;
}

/// Chunk q of k for a column.
void gather(uint q, Column c, out Raw raw[8]) {
  uint ih, iw;
  FOR(e, 8) raw[e] = Raw(0);
#if FLAT
  FOR(e, 8) {
    const uint k = q * 8 + e, ic = k / (k_h * k_w), tap = k - ic * (k_h * k_w), kh = tap / k_w;
    const bool rows = conv_source(c.ih + int(kh * dil_h), lhs_h, in_h, ih);
    const bool cols = conv_source(c.iw + int((tap - kh * k_w) * dil_w), lhs_w, in_w, iw);
    if (rows && cols && c.valid && ic < ic_count) {
      raw[e] = RAW_LOAD(c.base + ic * x_c + ih * x_h + iw * x_w);
    }
  }
#else
  const uint tap = q / ic_chunks, ic = (q - tap * ic_chunks) * 8, kh = tap / k_w;
  const bool rows = conv_source(c.ih + int(kh * dil_h), lhs_h, in_h, ih);
  const bool cols = conv_source(c.iw + int((tap - kh * k_w) * dil_w), lhs_w, in_w, iw);
  if (rows && cols && c.valid && kh < k_h) {
    const uint at = c.base + ic * x_c + ih * x_h + iw * x_w;
#if WHOLE_IC
    FOR(e, 8) raw[e] = RAW_LOAD(at + e * x_c);
#else
    FOR(e, 8) { if (ic + e < ic_count) raw[e] = RAW_LOAD(at + e * x_c); }
#endif
  }
#endif
}

/// Writes a chunk's pieces to shared memory.
void stash(uint at, Raw raw[8]) {
#if PIECES > 1
  Chunk c = Chunk(vec4(raw[0], raw[1], raw[2], raw[3]), vec4(raw[4], raw[5], raw[6], raw[7]));
  FOR(p, PIECES) sh[at + p * PIECE] = peel_chunk(c);
#else
  sh[at] = uvec4(raw[0] | raw[1] << 16, raw[2] | raw[3] << 16, raw[4] | raw[5] << 16,
                 raw[6] | raw[7] << 16);
#endif
}

#if PIECES > 1
/// An output computed without the matrix units, where pieces of infinities made it not finite.
float exactly(uint g, uint m, uint c) {
  const Column col = column_of(g, c);
  float sum = 0.0;
  for (uint ic = 0u; ic < ic_count; ic++) {
    for (uint kh = 0u; kh < k_h; kh++) {
      for (uint kw = 0u; kw < k_w; kw++) {
        uint ih, iw;
        const bool rows = conv_source(col.ih + int(kh * dil_h), lhs_h, in_h, ih);
        const bool cols = conv_source(col.iw + int(kw * dil_w), lhs_w, in_w, iw);
        if (!rows || !cols) continue;
        sum += float(x_raw(col.base + ic * x_c + ih * x_h + iw * x_w)) *
               float(w_raw(w_0 + g * w_g + m * w_oc + ic * w_ic + kh * w_h + kw * w_w));
      }
    }
  }
  return sum;
}
#endif

float checked(float v, uint g, uint m, uint c) {
#if PIECES > 1
  if (isnan(v) || isinf(v)) v = exactly(g, m, c);
#endif
  return v;
}

/// Adds up the sums of 16 rows of each subgroup that lie in shared memory, and stores them.
void finish(uint g, uint m0, uint c0) {
  const uint pixels = out_h * out_w, rows = WARPS_M * 16;
#if P4
  for (uint e = gl_LocalInvocationID.x; e < rows * (BN / 4); e += LOCAL_X) {
    const uint row = e / (BN / 4), quad = e % (BN / 4), m = m0 + row / 16 * WM + row % 16;
    const uint c = c0 + quad * 4, image = c / pixels;
    if (m >= oc_count || c >= columns) continue;
    vec4 v = uintBitsToFloat(sh[row * SUM_LD + quad]);
    FOR(k, WK - 1) v += uintBitsToFloat(sh[((k + 1) * rows + row) * SUM_LD + quad]);
    const uint oc = g * oc_count + m;
    FOR(i, 4) v[i] = checked(v[i], g, m, c + i);
#if BIAS
    v += float(bias_load(oc));
#endif
    y_store4((image * groups * oc_count + oc) * pixels + (c - image * pixels), v);
  }
#else
  for (uint e = gl_LocalInvocationID.x; e < rows * BN; e += LOCAL_X) {
    const uint row = e / BN, col = e % BN, m = m0 + row / 16 * WM + row % 16;
    const uint c = c0 + col, image = c / pixels;
    if (m >= oc_count || c >= columns) continue;
    float v = uintBitsToFloat(sh[row * SUM_LD + col / 4][col % 4]);
    FOR(k, WK - 1) v += uintBitsToFloat(sh[((k + 1) * rows + row) * SUM_LD + col / 4][col % 4]);
    const uint oc = g * oc_count + m;
    v = checked(v, g, m, c);
#if BIAS
    v += float(bias_load(oc));
#endif
    y_store((image * groups * oc_count + oc) * pixels + (c - image * pixels), y_T(v));
  }
#endif
}

#define UNIT (PIECES * 32)
#define LINE (k_steps * UNIT)

void main() {
  const uint lane = gl_SubgroupInvocationID, warp = gl_SubgroupID;
  const uint wk = warp / (WARPS_M * WARPS_N), wm = warp % WARPS_M, wn = warp / WARPS_M % WARPS_N;
  const uint sharer = warp % (WARPS_M * WARPS_N) * 32 + lane;
  const uint g = gl_WorkGroupID.z, c0 = gl_WorkGroupID.x * BN, m0 = gl_WorkGroupID.y * BM;
  Column column[PX];
  FOR(i, PX) column[i] = column_of(g, c0 + sharer % BN + i * SHARERS);
  const uint first_chunk = wk * share * CHUNKS + sharer / BN;
  const uint to = wk * STAGES * STAGE + sharer % BN * LD + sharer / BN;
  const uint from = wk * STAGES * STAGE + wn * WN * LD;
  tv_units pw = tv_units(packed_ptr) +
                      ((g * m_lines + m0 / 16 + wm * COUNT_M) * LINE + wk * share * (KS * UNIT) + lane);

  Sums acc[COUNT_M][COUNT_N];
  EACH_TILE acc[i][j] = Sums(0.0);
  Raw raw[PX][NC][8];
  uvec4 gw[KS][PIECES][COUNT_M];
#define FETCH_X(t) FOR(i, PX) FOR(c, NC) gather(first_chunk + (t) * CHUNKS + c * EACH, column[i], raw[i][c]);
#define STASH(stage) FOR(i, PX) FOR(c, NC) stash(to + (stage) * STAGE + i * SHARERS * LD + c * EACH, raw[i][c]);
#define FETCH_W(t, s) FOR(p, PIECES) FOR(i, COUNT_M) gw[s][p][i] = pw[((t) * KS + (s)) * UNIT + i * LINE + p * 32].v;
#if STAGES == 1
#define SYNC subgroupBarrier();
#else
#define SYNC barrier();
#endif
#if PIECES > 1
#define BEGIN Sums sum[COUNT_M]; FOR(i, COUNT_M) sum[i] = Sums(0.0);
#define SUM(i, j) sum[i]
#define END(j) FOR(i, COUNT_M) acc[i][j] += sum[i];
#else
#define BEGIN
#define SUM(i, j) acc[i][j]
#define END(j)
#endif

  FETCH_X(0u)
  FOR(s, KS) { FETCH_W(0u, s) }
  STASH(0u)
  SYNC
  for (uint t = 0u; t < share; t++) {
    // Past the last stage it is fetched again: no branch.
    const uint next = min(t + 1u, share - 1u), at = from + (STAGES == 2 ? t & 1u : 0u) * STAGE;
    FETCH_X(next)
    FOR(s, KS) {
      FragA fa[PIECES][COUNT_M];
      FOR(p, PIECES) FOR(i, COUNT_M) {
        FRAGMENT(fa[p][i], gw[s][p][i], pw + ((t * KS + s) * UNIT + i * LINE + p * 32) - lane,
                 gl_CooperativeMatrixLayoutRowMajor)
      }
      FETCH_W(next, s)
      FOR(j, COUNT_N) {
        FragB fb[PIECES];
        FOR(p, PIECES) coopMatLoad(fb[p], sh, at + p * PIECE + j * 16 * LD + s * 2, LD,
                                   gl_CooperativeMatrixLayoutColumnMajor);
        BEGIN
        [[unroll]] for (int order = PIECES - 1; order >= 0; order--)
          [[unroll]] for (int p = 0; p <= order; p++)
            FOR(i, COUNT_M) SUM(i, j) = coopMatMulAdd(fa[p][i], fb[order - p], SUM(i, j));
        END(j)
      }
    }
#if STAGES == 1
    SYNC
    STASH(0u)
#else
    STASH((t + 1u) & 1u)
#endif
    SYNC
  }

  barrier();
  FOR(i, COUNT_M) {
    FOR(j, COUNT_N) coopMatStore(acc[i][j], sh, (wk * WARPS_M + wm) * 16 * SUM_LD + wn * (WN / 4) + j * 4,
                                 SUM_LD, gl_CooperativeMatrixLayoutRowMajor);
    barrier();
    finish(g, m0 + i * 16, c0);
    barrier();
  }
}
