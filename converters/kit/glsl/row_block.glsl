// Blocks of long rows on CPU drivers (simd.glsl): block b of `count` neighbours, at least 2 LANES,
// has PAIRS pairs of vectors from b * WIDTH on. A pair that would pass the row's end moves back to
// it and repeats elements before it. X_AT(i): elements i … i + LANES - 1 of x.

const uint WIDE = 2u * LANES, WIDTH = PAIRS * WIDE;

/// Where pair q of block b begins.
uint column_of(uint b, uint q) { return min(b * WIDTH + q * WIDE, count - WIDE); }

/// Whether element (h, lane) of a pair is one that a pair before has, too.
bool repeats(uint b, uint q, uint h) {
  const uint repeated = b * WIDTH + q * WIDE - column_of(b, q);
  return h * LANES + gl_SubgroupInvocationID < repeated;
}

/// Elements of block b that no other has.
uint own_of(uint b) { return min(WIDTH, count - b * WIDTH); }

void load_block(uint b, uint start, out float v[PAIRS][2]) {
  [[unroll]] for (uint q = 0u; q < PAIRS; q++) {
    [[unroll]] for (uint h = 0u; h < 2u; h++) v[q][h] = X_AT(start + column_of(b, q) + h * LANES);
  }
}
