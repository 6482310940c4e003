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
// chunks lie at multiples of a chunk. WHOLE_IC: ic_count is a multiple of 8. Y_LAST: stores run
// along channels, P4: along pixels, in fours.
//
// DYNAMIC_SCALE: operands are fp32 in float16 pieces. A group multiplies its pixels by the power of
// two that brings the largest so far below 2^15, and its sums with them where a larger one comes,
// as an online softmax does; the weight comes multiplied (conv_matrix_rows.comp). What float16
// loses of numbers below 2^-29 of the largest is bounded for each output in the end; one that is
// not large beside the bound, or not finite, is computed again from the operands. Grid:
// (ceil(columns / BN), ceil(oc_count / BM), groups); local 32 * (BM / WM) * (BN / WN) * WK.

#include "conv_geometry.glsl"
#include "tail.glsl"

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

#if DYNAMIC_SCALE
const uint WARPS = WARPS_M * WARPS_N * WK;
shared uint tops[WARPS], leasts[WARPS];
#endif

// Each sharer of a stage gathers PX columns, PX_STEP apart, and of each NC of the stage's chunks of 8
// k, EACH apart. Neighbouring invocations take what lies side by side: columns, or chunks (X_LAST).
const uint CHUNKS = KS * 2;
#if X_LAST
const uint EACH = 1, NC = 1, PX = BN * CHUNKS / SHARERS, PX_STEP = SHARERS / CHUNKS;
#define FIRST_COLUMN (sharer / CHUNKS)
#define FIRST_CHUNK (sharer % CHUNKS)
#else
const uint EACH = SHARERS > BN ? SHARERS / BN : 1, NC = CHUNKS / EACH;
const uint PX = SHARERS > BN ? 1 : BN / SHARERS, PX_STEP = SHARERS;
#define FIRST_COLUMN (sharer % BN)
#define FIRST_CHUNK (sharer / BN)
#endif

/// What one invocation has loaded of 8 k of a column, and which of it counts.
struct Gathered {
#if X_LAST
  Chunk chunk;
#elif FLOATS
  vec4 lo, hi;
#else
  uvec4 lo, hi;
#endif
  uint mask;
};

#if FLOATS
#define ELEMENT(at) x_raw(at)
#else
#define ELEMENT(at) uint(x_ptr.v[at])
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

/// Chunk q of k for a column. Without branches, so that all loads are in flight together: what does
/// not count is loaded from element 0 and masked when it is stored.
Gathered gather(uint q, Column c) {
  Gathered r;
  uint ih, iw;
#if FLAT
  uint at[8];
  r.mask = 0u;
  FOR(e, 8) {
    const uint k = q * 8 + e, ic = k / (k_h * k_w), tap = k - ic * (k_h * k_w), kh = tap / k_w;
    const bool rows = conv_source(c.ih + int(kh * dil_h), lhs_h, in_h, ih);
    const bool cols = conv_source(c.iw + int((tap - kh * k_w) * dil_w), lhs_w, in_w, iw);
    const bool counts = rows && cols && c.valid && ic < ic_count;
    r.mask |= counts ? 1u << e : 0u;
    at[e] = counts ? c.base + ic * x_c + ih * x_h + iw * x_w : 0u;
  }
  FOR(e, 4) r.lo[e] = ELEMENT(at[e]);
  FOR(e, 4) r.hi[e] = ELEMENT(at[e + 4]);
#else
  const uint tap = q / ic_chunks, ic = (q - tap * ic_chunks) * 8, kh = tap / k_w;
  const bool rows = conv_source(c.ih + int(kh * dil_h), lhs_h, in_h, ih);
  const bool cols = conv_source(c.iw + int((tap - kh * k_w) * dil_w), lhs_w, in_w, iw);
  const bool counts = rows && cols && c.valid && kh < k_h;
  const uint at = counts ? c.base + ic * x_c + ih * x_h + iw * x_w : 0u;
  r.mask = counts ? 0xffu : 0u;
#if X_LAST
  tv_chunks p = tv_chunks(x_ptr) + at / 8;
  r.chunk = LOAD_CHUNK(p);
#else
#if WHOLE_IC
  FOR(e, 4) r.lo[e] = ELEMENT(at + e * x_c);
  FOR(e, 4) r.hi[e] = ELEMENT(at + (e + 4) * x_c);
#else
  const uint last = min(7u, ic_count - 1u - (counts ? ic : 0u));  // of the channels that exist
  r.mask &= (2u << last) - 1u;
  FOR(e, 4) r.lo[e] = ELEMENT(at + min(e, last) * x_c);
  FOR(e, 4) r.hi[e] = ELEMENT(at + min(e + 4, last) * x_c);
#endif
#endif
#endif
  return r;
}

/// What was gathered, with zeros for what does not count.
Chunk chunk_of(Gathered r) {
#if X_LAST
  Chunk c = r.chunk;
  if (r.mask == 0u) c = NO_CHUNK;
#else
#if FLAT || !WHOLE_IC
  FOR(e, 4) {
    r.lo[e] = (r.mask >> e & 1u) != 0u ? r.lo[e] : 0;
    r.hi[e] = (r.mask >> (e + 4) & 1u) != 0u ? r.hi[e] : 0;
  }
#endif
#if FLOATS
  Chunk c = Chunk(r.lo, r.hi);
#else
  Chunk c = Chunk(r.lo.x | r.lo.y << 16, r.lo.z | r.lo.w << 16, r.hi.x | r.hi.y << 16,
                  r.hi.z | r.hi.w << 16);
#endif
#if !FLAT && WHOLE_IC
  if (r.mask == 0u) c = NO_CHUNK;
#endif
#endif
  return c;
}

/// Writes a chunk's pieces to shared memory.
void stash(uint at, Chunk c) {
  FOR(p, PIECES) sh[at + p * PIECE] = split_chunk(c, p);
}

#if DYNAMIC_SCALE
/// The largest |x|, and of those other than 0 the least (twice its bits, less one).
void measure(Chunk c, inout float largest, inout uint least) {
  FOR(e, 4) {
    largest = max(largest, max(abs(c.lo[e]), abs(c.hi[e])));
    least = min(least, min((floatBitsToUint(c.lo[e]) << 1) - 1u, (floatBitsToUint(c.hi[e]) << 1) - 1u));
  }
}

/// 2^(from - to) for exponents as fp32 has them.
float ratio_of(uint from, uint to) {
  return uintBitsToFloat(uint(max(127 + int(from) - int(to), 0)) << 23);
}
#endif

#include "conv_matrix_end.glsl"

#define UNIT (PIECES * 32)
#define LINE (k_steps * UNIT)

void main() {
  const uint lane = gl_SubgroupInvocationID, warp = gl_SubgroupID;
  const uint wk = warp / (WARPS_M * WARPS_N), wm = warp % WARPS_M, wn = warp / WARPS_M % WARPS_N;
  const uint sharer = warp % (WARPS_M * WARPS_N) * 32 + lane;
  const uint g = gl_WorkGroupID.z, c0 = gl_WorkGroupID.x * BN, m0 = gl_WorkGroupID.y * BM;
  Column column[PX];
  FOR(i, PX) column[i] = column_of(g, c0 + FIRST_COLUMN + i * PX_STEP);
  const uint first_chunk = wk * share * CHUNKS + FIRST_CHUNK;
  const uint to = wk * STAGES * STAGE + FIRST_COLUMN * LD + FIRST_CHUNK;
  const uint from = wk * STAGES * STAGE + wn * WN * LD;
  tv_units pw = tv_units(packed_ptr) +
                      ((g * m_lines + m0 / 16 + wm * COUNT_M) * LINE + wk * share * (KS * UNIT) + lane);

  Sums acc[COUNT_M][COUNT_N];
  EACH_TILE acc[i][j] = Sums(0.0);
  Gathered raw[PX][NC];
  uvec4 gw[KS][PIECES][COUNT_M];
#define FETCH_X(t) FOR(i, PX) FOR(c, NC) raw[i][c] = gather(first_chunk + (t) * CHUNKS + c * EACH, column[i]);
#if DYNAMIC_SCALE
  uint top = 17u, least = 0xffffffffu;  // exponent of the largest pixel, and measure()'s least
#if STAGES == 1
#define SHARE_TOP(now)
#else
#define SHARE_TOP(now)                                                                          \
  if (lane == 0u) tops[warp] = now;                                                             \
  barrier();                                                                                    \
  FOR(w, WARPS_M * WARPS_N) now = max(now, tops[wk * (WARPS_M * WARPS_N) + w]);
#endif
#define STASH(stage) {                                                                          \
    Chunk got[PX][NC];                                                                          \
    float largest = 0.0;                                                                        \
    FOR(i, PX) FOR(c, NC) {                                                                     \
      got[i][c] = chunk_of(raw[i][c]);                                                          \
      measure(got[i][c], largest, least);                                                       \
    }                                                                                           \
    uint now = subgroupMax(floatBitsToUint(largest)) >> 23;                                     \
    SHARE_TOP(now)                                                                              \
    if (now > top) {                                                                            \
      const float ratio = ratio_of(top, now);                                                   \
      EACH_TILE acc[i][j] = acc[i][j] * ratio;                                                  \
      top = now;                                                                                \
    }                                                                                           \
    const float up = uintBitsToFloat((268u - top) << 23);                                       \
    FOR(i, PX) FOR(c, NC) {                                                                     \
      const Chunk scaled = Chunk(got[i][c].lo * up, got[i][c].hi * up);                         \
      stash(to + (stage) * STAGE + i * PX_STEP * LD + c * EACH, scaled);                        \
    }                                                                                           \
  }
#else
#define STASH(stage) \
  FOR(i, PX) FOR(c, NC) stash(to + (stage) * STAGE + i * PX_STEP * LD + c * EACH, chunk_of(raw[i][c]));
#endif
#define FETCH_W(t, s) FOR(p, PIECES) FOR(i, COUNT_M) gw[s][p][i] = pw[((t) * KS + (s)) * UNIT + i * LINE + p * 32].v;
#if STAGES == 1
#define SYNC subgroupBarrier();
#else
#define SYNC barrier();
#endif
// What a step adds to acc[i][j]. Products of leading pieces apart from the others, for the units cut
// what they add to large sums. Written out, so that no driver has to find out which of several
// matrices in arrays a product is added to.
#define PRODUCT(p, q, sum) coopMatMulAdd(fa[p][i], fb[q], sum)
#if PIECES == 1
#define ADD_STEP(i, j) acc[i][j] = PRODUCT(0, 0, acc[i][j]);
#elif PIECES == 2
#define ADD_STEP(i, j) {                                                                        \
    const Sums low = PRODUCT(1, 0, PRODUCT(0, 1, Sums(0.0)));                                   \
    const Sums high = PRODUCT(0, 0, Sums(0.0));                                                 \
    acc[i][j] += high + UNSTEPPED(low);                                                         \
  }
#else
#define ADD_STEP(i, j) {                                                                        \
    const Sums least_ = PRODUCT(2, 0, PRODUCT(1, 1, PRODUCT(0, 2, Sums(0.0))));                 \
    const Sums low = PRODUCT(1, 0, PRODUCT(0, 1, least_));                                      \
    const Sums high = PRODUCT(0, 0, Sums(0.0));                                                 \
    acc[i][j] += high + low;                                                                    \
  }
#endif
#if DYNAMIC_SCALE
#define UNSTEPPED(low) (low * (1.0 / PIECE_STEP))
#else
#define UNSTEPPED(low) low
#endif

  // Stage t from shared memory at `at` and from gw, which FETCH(s) then fills again.
#define COMPUTE(t, at, FETCH)                                                                   \
  FOR(s, KS) {                                                                                  \
    FragA fa[PIECES][COUNT_M];                                                                  \
    FOR(p, PIECES) FOR(i, COUNT_M) {                                                            \
      FRAGMENT(fa[p][i], gw[s][p][i], pw + (((t) * KS + s) * UNIT + i * LINE + p * 32) - lane,  \
               gl_CooperativeMatrixLayoutRowMajor)                                              \
    }                                                                                           \
    FETCH                                                                                       \
    FOR(j, COUNT_N) {                                                                           \
      FragB fb[PIECES];                                                                         \
      FOR(p, PIECES) coopMatLoad(fb[p], sh, (at) + p * PIECE + j * 16 * LD + s * 2, LD,         \
                                 gl_CooperativeMatrixLayoutColumnMajor);                        \
      FOR(i, COUNT_M) { ADD_STEP(i, j) }                                                        \
    }                                                                                           \
  }

  FETCH_X(0u)
  FOR(s, KS) { FETCH_W(0u, s) }
  STASH(0u)
  SYNC
  uint t = 0u;
  for (; t + 1u < share; t++) {
    FETCH_X(t + 1u)
    COMPUTE(t, from + (STAGES == 2 ? t & 1u : 0u) * STAGE, FETCH_W(t + 1u, s))
#if STAGES == 1
    SYNC
    STASH(0u)
#else
    STASH((t + 1u) & 1u)
#endif
    SYNC
  }
  COMPUTE(t, from + (STAGES == 2 ? t & 1u : 0u) * STAGE, )

  Range x;
#if DYNAMIC_SCALE
  least = subgroupMin(least);
  if (lane == 0u) {
    tops[warp] = top;
    leasts[warp] = least;
  }
#endif
  barrier();
#if DYNAMIC_SCALE
  uint highest = tops[0];
  FOR(w, WARPS) {
    highest = max(highest, tops[w]);
    least = min(least, leasts[w]);
  }
  const float ratio = ratio_of(top, highest);
  EACH_TILE acc[i][j] = acc[i][j] * ratio;
  x.down = uintBitsToFloat((highest - 14u) << 23);
  x.any = least != 0xffffffffu;
  x.small = least < (max(highest, 28u) - 28u) << 24;
#endif
  uint again[COUNT_M];
  EACH_STORE(i, COUNT_M) {
    PICK(q, i, COUNT_M, FOR(j, COUNT_N) coopMatStore(
        acc[q][j], sh, (wk * WARPS_M + wm) * 16 * SUM_LD + wn * (WN / 4) + j * 4, SUM_LD,
        gl_CooperativeMatrixLayoutRowMajor))
    barrier();
    const uint left = finish(g, m0 + i * 16, c0, x);
    PICK(q, i, COUNT_M, again[q] = left)
    barrier();
  }
#if FLOATS
  FOR(i, COUNT_M) {
    if (subgroupAny(again[i] != 0u)) redo(g, m0 + i * 16, c0, again[i]);
  }
#endif
}
