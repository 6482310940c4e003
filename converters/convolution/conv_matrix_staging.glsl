// Pixels of conv_matrix.comp from memory through registers into shared memory.
//   fetch_pixels(t): those of stage t into registers,
//   STASH(acc, stage): from there, in pieces, into a stage.
// DYNAMIC_SCALE: times a power of two that the subgroups of a stage agree on; where a larger pixel
// comes, what acc has so far is brought to it.

Column column[PX];     // this invocation's columns,
uint first_chunk, to;  // its first chunk of k, and where that goes in shared memory
Gathered raw[PX][NC];  // pixels on their way
#if DYNAMIC_SCALE
uint top, least;  // exponent of the largest pixel so far, and measure()'s least
#endif

void find_pixels() {
  FOR(i, PX) column[i] = column_of(g, c0 + FIRST_COLUMN + i * PX_STEP);
#if BYTES
  start_x_sums();
#endif
  first_chunk = wk * share * CHUNKS + FIRST_CHUNK;
  to = wk * STAGES * STAGE + FIRST_COLUMN * LD + FIRST_CHUNK;
#if DYNAMIC_SCALE
  top = 17u;
  least = 0xffffffffu;
#endif
}

void fetch_pixels(uint t) {
  FOR(i, PX) FOR(c, NC) raw[i][c] = gather(first_chunk + t * CHUNKS + c * EACH, column[i]);
}

uint place_in_stage(uint stage, uint i, uint c) {
  return to + stage * STAGE + i * PX_STEP * LD + c * EACH;
}

#if DYNAMIC_SCALE
Chunk got[PX][NC];

/// The exponent of the largest pixel of the stage that is in registers.
uint measure_stage() {
  float largest = 0.0;
  FOR(i, PX) FOR(c, NC) {
    got[i][c] = chunk_of(raw[i][c]);
    measure(got[i][c], largest, least);
  }
  uint now = subgroupMax(floatBitsToUint(largest)) >> 23;
#if STAGES > 1
  if (lane == 0u) tops[warp] = now;
  barrier();
  FOR(w, WARPS_M * WARPS_N) now = max(now, tops[wk * (WARPS_M * WARPS_N) + w]);
#endif
  return now;
}

void stash_scaled(uint stage) {
  const float up = uintBitsToFloat((268u - top) << 23);
  FOR(i, PX) FOR(c, NC) {
    const Chunk scaled = Chunk(got[i][c].lo * up, got[i][c].hi * up);
    stash(place_in_stage(stage, i, c), scaled);
  }
}

#define STASH(acc, stage) {                                                                     \
    const uint now_ = measure_stage();                                                          \
    if (now_ > top) {                                                                           \
      const float ratio_ = ratio_of(top, now_);                                                 \
      EACH_TILE acc[i][j] = acc[i][j] * ratio_;                                                 \
      top = now_;                                                                               \
    }                                                                                           \
    stash_scaled(stage);                                                                        \
  }
#else
void stash_pixels(uint stage) {
  FOR(i, PX) FOR(c, NC) {
    Chunk chunk = chunk_of(raw[i][c]);
#if BYTES
    add_x(i, chunk);
#endif
    stash(place_in_stage(stage, i, c), chunk);
  }
}
#define STASH(acc, stage) stash_pixels(stage);
#endif

#if BYTES
/// The sums of the workgroup's columns, for shifted(); between barriers.
void finish_x_sums() {
#if W_SHIFTED
  if (!w_is_shifted) return;
  FOR(i, PX) {
    const uint column_ = FIRST_COLUMN + i * PX_STEP;
    x_parts[column_ * PARTS + wk * SUMMING + FIRST_CHUNK] = x_sums[i];
  }
  barrier();
  ADD_PARTS(x_parts, BN, PARTS)
#endif
}
#endif
