// How conv_matrix.comp ends: sums in shared memory become outputs, and what the matrix units got
// wrong is computed again.

// Stores go by pieces of FOURS neighbouring columns of one output channel; Y_PIXELS: by four
// channels of one column.
#if Y_PIXELS || (P4 && !Y_LAST)
#define FOURS 4
#else
#define FOURS 1
#endif
#if Y_PIXELS
const uint LAST_COLUMN = BN - 1;
#else
const uint LAST_COLUMN = BN - FOURS;
#endif
const uint ROWS = WARPS_M * 16, STORES = ROWS * BN / FOURS;
const uint ROUNDS = (STORES + LOCAL_X - 1) / LOCAL_X;

/// Store number e of 16 rows of each subgroup: its place among the sums and in the output.
struct Place {
  uint row, col, m, c, to;
  bool counts;
};

Place place_of(uint e, uint g, uint m0, uint c0) {
  Place p;
#if Y_PIXELS
  p.row = e % (ROWS / 4) * 4;
  p.col = e / (ROWS / 4);
#elif Y_LAST
  p.row = e % ROWS;
  p.col = e / ROWS;
#else
  p.row = e / (BN / FOURS);
  p.col = e % (BN / FOURS) * FOURS;
#endif
  p.m = m0 + p.row / 16 * WM + p.row % 16;
  p.c = c0 + p.col;
  p.counts = e < STORES && p.m < oc_count && p.c < columns;
#if Y_PIXELS
  const uint to = p.c * (groups * oc_count) + g * oc_count + p.m;
#else
  const uint pixels = CONV_PIXELS, image = p.c / pixels;
  const uint to = (image * groups * oc_count + g * oc_count + p.m) * pixels +
      (p.c - image * pixels);
#endif
  p.to = p.counts ? to : 0u;
  return p;
}

// Output channel and column of number i of a store.
#if Y_PIXELS
#define CHANNEL(p, i) ((p).m + (i))
#define COLUMN(p, i) (p).c
#else
#define CHANNEL(p, i) (p).m
#define COLUMN(p, i) ((p).c + (i))
#endif

#if BYTES
#if Y_PIXELS
#define Channels ivec4
#define OF_CHANNELS(f, oc) f(oc), f((oc) + 1u), f((oc) + 2u), f((oc) + 3u)
#else
#define Channels int
#define OF_CHANNELS(f, oc) f(oc)
#endif
/// What is taken from the sums of a store's output channels. Y_PIXELS: they are the same in each
/// round, and are read once.
struct Lacks {
  Channels x;  ///< in all columns,
  Channels w;  ///< and times what a column's bytes add up to
};

Lacks lacks_of(uint g, uint m) {
  Lacks r;
#if X_SHIFTED || W_SHIFTED
#if Y_PIXELS
  const uint oc = g * oc_count + min(m, oc_count - 4u);
#else
  const uint oc = g * oc_count + min(m, oc_count - 1u);
#endif
#endif
#if X_SHIFTED
  r.x = x_shift * Channels(OF_CHANNELS(w_sums_raw, oc));
#else
  r.x = Channels(0);
#endif
#if W_SHIFTED
  r.w = Channels(OF_CHANNELS(w_shift_of, oc));
  r.x -= r.w * (int(ic_count * CONV_TAPS) * x_shift);
#endif
  return r;
}

#if W_SHIFTED
#define LACKING(lacks, col) ((lacks).x + (lacks).w * x_sum_of(col))
#else
#define LACKING(lacks, col) (lacks).x
#endif
#if FOURS == 4 && !Y_PIXELS
#define ADDED(v, g, p, lacks) FOR(e, 4) v[e] -= LACKING(lacks, min(p.col + e, BN - 1));
#else
#define ADDED(v, g, p, lacks) v -= LACKING(lacks, min(p.col, BN - 1));
#endif
#elif BIAS
#define BIAS_OF(g, p, i) float(bias_load(p.counts ? g * oc_count + CHANNEL(p, i) : 0u))
#if Y_PIXELS
#define ADDED(v, g, p, lacks) FOR(e, 4) v[e] += BIAS_OF(g, p, e);
#else
#define ADDED(v, g, p, lacks) v += BIAS_OF(g, p, 0u);
#endif
#else
#define ADDED(v, g, p, lacks)
#endif

/// What the sums of a tile are to be multiplied by, and what float16 may have lost.
struct Range {
  float down;
  bool any, small;  ///< pixels other than 0; such below 2^-14 once multiplied
};

#if DYNAMIC_SCALE
// float16 loses at most 2^-24 of a pixel below 2^-14, and of such a weight 2^-25, or 2^-36 of two
// pieces (LEAST_PIECES). Results may hold 2^-14 of themselves of it, or 2^-22.
const float LOST_X = PIECES == 1 ? 1.0 / 1024.0 : 1.0 / 4.0;
const float LOST_W = PIECES == 1 ? 1.0 / 2048.0 : 1.0 / 16384.0;
/// The least |sum| that is as accurate as it should be, for an output channel with these weights.
float least_sum(vec4 row, Range x) {
  return (x.small ? LOST_X * row.y : 0.0) + (x.any ? LOST_W * row.z : 0.0);
}
// Number i of a store from its sum; wrong: where float16 may have lost too much of it. The larger
// factor first: a product that overflows is computed again, one that vanished would not be.
#define UNSCALE(v, wrong, g, p, i, x) {                                                           \
    const vec4 row_ = rows_vec4((p.counts ? g * oc_count + CHANNEL(p, i) : 0u) * 4u);             \
    const bool small_ = abs(v) < least_sum(row_, x);                                              \
    v = v * max(row_.x, x.down) * min(row_.x, x.down);                                            \
    wrong = wrong || small_ || isnan(v) || isinf(v);                                              \
  }
#elif FLOATS
#define UNSCALE(v, wrong, g, p, i, x) wrong = wrong || isnan(v) || isinf(v);
#else
#define UNSCALE(v, wrong, g, p, i, x)
#endif

#if FOURS == 4
#define Result y_RV
#define PUT y_put4
#else
#define Result y_R
#define PUT y_put
#endif

#if Y_PIXELS
#define SUMS_AT(k, row, col) sh[((k) * BN + col) * SUM_LD + row / 4]
#define SUMS_LAYOUT gl_CooperativeMatrixLayoutColumnMajor
#define SUMS_PLACE(wk, wm, wn, j) (((wk) * BN + (wn) * WN + (j) * 16) * SUM_LD + (wm) * 4)
#else
#define SUMS_AT(k, row, col) sh[((k) * ROWS + row) * SUM_LD + col / 4]
#define SUMS_LAYOUT gl_CooperativeMatrixLayoutRowMajor
#define SUMS_PLACE(wk, wm, wn, j) \
  (((wk) * WARPS_M + (wm)) * 16 * SUM_LD + (wn) * (WN / 4) + (j) * 4)
#endif

/// Adds up the sums of 16 rows of each subgroup that lie in shared memory, and stores them. All
/// that a short epilogue reads is read before the first store, which it might wait for. Bit r: what
/// this invocation has found in round r is to be computed again.
uint finish(uint g, uint m0, uint c0, Range x) {
  uint again = 0u;
#if !LONG_EPILOGUE
  Place place[ROUNDS];
  Result result[ROUNDS];
#endif
#if BYTES && Y_PIXELS
  const Lacks lacks = lacks_of(g, place_of(gl_LocalInvocationID.x, g, m0, c0).m);
#endif
  EACH_STORE(r, ROUNDS) {
    const uint e = gl_LocalInvocationID.x + r * LOCAL_X;
    const Place p = place_of(e, g, m0, c0);
#if BYTES && !Y_PIXELS
    const Lacks lacks = lacks_of(g, p.m);
#endif
    const uint row = min(p.row, ROWS - 1), col = min(p.col, LAST_COLUMN);
    bool wrong = false;
#if FOURS == 4
    Four v = four_of(SUMS_AT(0, row, col));
    FOR(k, WK - 1) v += four_of(SUMS_AT(k + 1, row, col));
    FOR(i, FOURS) { UNSCALE(v[i], wrong, g, p, i, x) }
#else
    One v = one_of(SUMS_AT(0, row, col)[col % 4]);
    FOR(k, WK - 1) v += one_of(SUMS_AT(k + 1, row, col)[col % 4]);
    UNSCALE(v, wrong, g, p, 0u, x)
#endif
    ADDED(v, g, p, lacks)
#if FOURS == 4
    const Result y = y_value4(p.to, v);
#else
    const Result y = y_value(p.to, y_T(v));
#endif
    again |= FLOATS && p.counts && wrong ? 1u << r : 0u;
#if LONG_EPILOGUE
    if (p.counts && !(FLOATS && wrong)) PUT(p.to, y);
#else
    place[r] = p;
    result[r] = y;
#endif
  }
#if !LONG_EPILOGUE
  FOR(r, ROUNDS) {
    if (place[r].counts && (again >> r & 1u) == 0u) PUT(place[r].to, result[r]);
  }
#endif
  return again;
}

#if FLOATS
#define TOGETHER 8
/// The sum of one output, by all invocations of a subgroup.
float exactly(uint g, uint m, uint c) {
  const Column col = column_of(g, c);
  const uint count = ic_count * CONV_TAPS;
  float sum = 0.0;
  for (uint k0 = gl_SubgroupInvocationID; k0 < count + gl_SubgroupInvocationID;
      k0 += 32u * TOGETHER) {
    float xs[TOGETHER], ws[TOGETHER];
    FOR(i, TOGETHER) {  // what does not count is loaded from element 0, so that no load waits
      const uint k = k0 + i * 32u, ic = k / CONV_TAPS, tap = k - ic * CONV_TAPS;
      uint at;
      const bool counts = tap_source(col, tap, at) && k < count;
      xs[i] = x_raw(counts ? at + ic * x_c : 0u);
      const uint w_at = w_0 + g * w_g + m * w_oc + CONV_WEIGHT(ic, conv_tap(tap));
      ws[i] = w_raw(counts ? w_at : w_0);
      if (!counts) xs[i] = ws[i] = 0.0;
    }
    FOR(i, TOGETHER) sum = fma(xs[i], ws[i], sum);
  }
  FOR(s, 5) sum += subgroupShuffleXor(sum, 1u << s);
  return sum;
}

/// What finish() has left, without the matrix units.
void redo(uint g, uint m0, uint c0, uint again) {
  for (uint left = subgroupOr(again); left != 0u; left &= left - 1u) {
    const uint r = uint(findLSB(left));
    for (uint lane = 0u; lane < 32u; lane++) {
      if ((subgroupShuffle(again, lane) >> r & 1u) == 0u) continue;
      const uint e = subgroupShuffle(gl_LocalInvocationID.x, lane) + r * LOCAL_X;
      const Place p = place_of(e, g, m0, c0);
      for (uint i = 0u; i < FOURS; i++) {
        float v = exactly(g, CHANNEL(p, i), COLUMN(p, i));
#if BIAS
        v += BIAS_OF(g, p, i);
#endif
        if (gl_SubgroupInvocationID == 0u) y_store(p.to + i, y_T(v));
      }
    }
  }
}
#endif

// What all sums of the workgroup are to be multiplied by, and what the pixels were like: brings the
// sums acc of every group of subgroups (`top`, `least`: conv_matrix_staging.glsl) to one power of
// two.
#if DYNAMIC_SCALE
#define FIND_RANGE(x, acc, top, least, warp, lane)                                              \
  least = subgroupMin(least);                                                                   \
  if (lane == 0u) {                                                                             \
    tops[warp] = top;                                                                           \
    leasts[warp] = least;                                                                       \
  }                                                                                             \
  barrier();                                                                                    \
  uint highest = tops[0];                                                                       \
  FOR(w, WARPS) {                                                                               \
    highest = max(highest, tops[w]);                                                            \
    least = min(least, leasts[w]);                                                              \
  }                                                                                             \
  const float ratio = ratio_of(top, highest);                                                   \
  EACH_TILE acc[i][j] = acc[i][j] * ratio;                                                      \
  x.down = uintBitsToFloat((highest - 14u) << 23);                                              \
  x.any = least != 0xffffffffu;                                                                 \
  x.small = least < (max(highest, 28u) - 28u) << 24;
#else
#define FIND_RANGE(x, acc, top, least, warp, lane) barrier();
#endif

// Writes the workgroup's tile at (m0, c0) of group g from the sums acc of subgroup (wm, wn, wk), 16
// rows of each subgroup at a time; then what is to be computed again.
#if FLOATS
#define REDO(again, g, m0, c0)                                                                  \
  FOR(i, COUNT_M) {                                                                             \
    if (subgroupAny(again[i] != 0u)) redo(g, m0 + i * 16, c0, again[i]);                        \
  }
#else
#define REDO(again, g, m0, c0)
#endif
#define STORE_TILE(acc, g, m0, c0, x, wm, wn, wk)                                               \
  uint again[COUNT_M];                                                                          \
  EACH_STORE(i, COUNT_M) {                                                                      \
    PICK(q, i, COUNT_M, FOR(j, COUNT_N) coopMatStore(                                           \
        acc[q][j], sh, SUMS_PLACE(wk, wm, wn, j), SUM_LD, SUMS_LAYOUT))                         \
    barrier();                                                                                  \
    const uint left = finish(g, m0 + i * 16, c0, x);                                            \
    PICK(q, i, COUNT_M, again[q] = left)                                                        \
    barrier();                                                                                  \
  }                                                                                             \
  REDO(again, g, m0, c0)
