// The products of conv_matrix.comp, included in its main: the weight from memory into registers,
// pixels from shared memory.
//   FETCH_W(gw, t, s): the weight's fragments of step s of stage t, gw[s][PIECES][COUNT_M],
//   FETCH_NEXT(gw, t, s), FETCH_NONE(gw, t, s): those of the stage behind t; none,
//   COMPUTE(acc, gw, t, FETCH): adds the products of stage t to acc[COUNT_M][COUNT_N], and has
//   FETCH fill gw[s] again once step s has it.

  const uint from = wk * STAGES * STAGE + wn * WN * LD;
#define STAGE_AT(t) (from + (STAGES == 2 ? t & 1u : 0u) * STAGE)
  tv_units pw = tv_units(packed_ptr) +
                      ((g * m_lines + m0 / 16 + wm * COUNT_M) * LINE + wk * share * (KS * UNIT) + lane);
#define FETCH_W(gw, t, s) FOR(p, PIECES) FOR(i, COUNT_M) \
    gw[s][p][i] = pw[((t) * KS + (s)) * UNIT + i * LINE + p * 32].v;
#define FETCH_NEXT(gw, t, s) FETCH_W(gw, t + 1u, s)
#define FETCH_NONE(gw, t, s)

// Adds a step's products of fragments fa[PIECES][i] and fb[PIECES] to `total`: those of leading
// pieces apart from the others, for the units cut what they add to large sums. Written out, so that
// no driver has to find out which of several matrices in arrays a product is added to.
#define PRODUCT(fa, fb, i, p, q, sum) coopMatMulAdd(fa[p][i], fb[q], sum)
#if PIECES == 1
#define ADD_STEP(total, fa, fb, i) total = PRODUCT(fa, fb, i, 0, 0, total);
#elif PIECES == 2
#define ADD_STEP(total, fa, fb, i) {                                                            \
    const Sums low = PRODUCT(fa, fb, i, 1, 0, PRODUCT(fa, fb, i, 0, 1, Sums(0.0)));             \
    const Sums high = PRODUCT(fa, fb, i, 0, 0, Sums(0.0));                                      \
    total += high + UNSTEPPED(low);                                                             \
  }
#else
#define ADD_STEP(total, fa, fb, i) {                                                            \
    const Sums least_ = PRODUCT(fa, fb, i, 2, 0, PRODUCT(fa, fb, i, 1, 1,                       \
                                PRODUCT(fa, fb, i, 0, 2, Sums(0.0))));                          \
    const Sums low = PRODUCT(fa, fb, i, 1, 0, PRODUCT(fa, fb, i, 0, 1, least_));                \
    const Sums high = PRODUCT(fa, fb, i, 0, 0, Sums(0.0));                                      \
    total += high + low;                                                                        \
  }
#endif
#if DYNAMIC_SCALE
#define UNSTEPPED(low) (low * (1.0 / PIECE_STEP))
#else
#define UNSTEPPED(low) low
#endif

#define COMPUTE(acc, gw, t, FETCH)                                                              \
  FOR(s, KS) {                                                                                  \
    FragA fa[PIECES][COUNT_M];                                                                  \
    FOR(p, PIECES) FOR(i, COUNT_M) {                                                            \
      FRAGMENT(fa[p][i], gw[s][p][i], pw + (((t) * KS + s) * UNIT + i * LINE + p * 32) - lane,  \
               gl_CooperativeMatrixLayoutRowMajor)                                              \
    }                                                                                           \
    FETCH(gw, t, s)                                                                             \
    FOR(j, COUNT_N) {                                                                           \
      FragB fb[PIECES];                                                                         \
      FOR(p, PIECES) coopMatLoad(fb[p], sh, STAGE_AT(t) + p * PIECE + j * 16 * LD + s * 2, LD,  \
                                 gl_CooperativeMatrixLayoutColumnMajor);                        \
      FOR(i, COUNT_M) { ADD_STEP(acc[i][j], fa, fb, i) }                                        \
    }                                                                                           \
  }
