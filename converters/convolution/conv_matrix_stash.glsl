// From registers to shared memory, in the main of conv_matrix.comp:
//   STASH(acc, raw, stage): the chunks raw[PX][NC], in pieces, into a stage.
// DYNAMIC_SCALE: times a power of two that the subgroups of a stage agree on; where a larger pixel
// comes, what acc has so far is brought to it.

#if DYNAMIC_SCALE
  uint top = 17u, least = 0xffffffffu;  // exponent of the largest pixel, and measure()'s least
#if STAGES == 1
#define SHARE_TOP(now, warp, wk, lane)
#else
#define SHARE_TOP(now, warp, wk, lane)                                                          \
  if (lane == 0u) tops[warp] = now;                                                             \
  barrier();                                                                                    \
  FOR(w, WARPS_M * WARPS_N) now = max(now, tops[wk * (WARPS_M * WARPS_N) + w]);
#endif
#define STASH(acc, raw, stage) {                                                                \
    Chunk got[PX][NC];                                                                          \
    float largest = 0.0;                                                                        \
    FOR(i, PX) FOR(c, NC) {                                                                     \
      got[i][c] = chunk_of(raw[i][c]);                                                          \
      measure(got[i][c], largest, least);                                                       \
    }                                                                                           \
    uint now = subgroupMax(floatBitsToUint(largest)) >> 23;                                     \
    SHARE_TOP(now, warp, wk, lane)                                                              \
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
#define STASH(acc, raw, stage)                                                                  \
  FOR(i, PX) FOR(c, NC)                                                                         \
    stash(to + (stage) * STAGE + i * PX_STEP * LD + c * EACH, chunk_of(raw[i][c]));
#endif
