// The products of conv_matrix.comp: the weight from memory into registers, pixels from shared
// memory.
//   fetch_weights(t, s): the weight's fragments of step s of stage t, fetch_next(t, s),
//   fetch_none(t, s): those of the stage behind t; none, COMPUTE(acc, t, fetch): adds the products
//   of stage t to acc[COUNT_M][COUNT_N], and calls `fetch` for a step once it has its weights.
//   Macros where matrices are concerned: they stay variables of main.

uint from;    // where the subgroup's pixels begin in shared memory
tv_uvec4s pw;  // this invocation's uvec4s of the weight
uvec4 gw[KS][PIECES][COUNT_M];

void find_weights() {
  from = wk * STAGES * STAGE + wn * WN * LD;
  pw = tv_uvec4s(packed_ptr) +
       ((g * m_lines + m0 / 16 + wm * COUNT_M) * LINE + wk * share * (KS * FRAG) + lane);
}

void fetch_weights(uint t, uint s) {
  FOR(p, PIECES) FOR(i, COUNT_M) gw[s][p][i] = pw[(t * KS + s) * FRAG + i * LINE + p * 32].v;
}
void fetch_next(uint t, uint s) { fetch_weights(t + 1u, s); }
void fetch_none(uint t, uint s) {}

// Adds a step's products of fragments fa[PIECES][i] and fb[PIECES] to `total`. Products of leading
// pieces are summed apart from the others, because matrix units truncate small terms that are added
// to large sums. Written out, so that no driver has to find out which of several matrices in arrays
// a product is added to.
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

#define STAGE_AT(t) (from + (STAGES == 2 ? (t) & 1u : 0u) * STAGE)
// A step's 32 bytes are one matrix, or, of bytes where those have 16 of k, PARTS_OF_STEP.
#if BYTES == 16
#define PARTS_OF_STEP 2
#else
#define PARTS_OF_STEP 1
#endif
#define COMPUTE(acc, t, fetch)                                                                  \
  FOR(s, KS) FOR(h, PARTS_OF_STEP) {                                                            \
    FragA fa[PIECES][COUNT_M];                                                                  \
    FOR(p, PIECES) FOR(i, COUNT_M) {                                                            \
      FRAGMENT(fa[p][i], gw[s][p][i],                                                           \
               pw + (((t) * KS + s) * FRAG + i * LINE + p * 32 + h) - lane,                     \
               gl_CooperativeMatrixLayoutRowMajor)                                              \
    }                                                                                           \
    if (h + 1 == PARTS_OF_STEP) fetch(t, s);                                                    \
    FOR(j, COUNT_N) {                                                                           \
      FragB fb[PIECES];                                                                         \
      FOR(p, PIECES) coopMatLoad(fb[p], sh, STAGE_AT(t) + p * PIECE + j * 16 * LD + s * 2 + h,  \
                                 LD, gl_CooperativeMatrixLayoutColumnMajor);                    \
      FOR(i, COUNT_M) { ADD_STEP(acc[i][j], fa, fb, i) }                                        \
    }                                                                                           \
  }
