// Fragments of a for matmul_fragments.comp, included in its main, for the rows of a from m0 on:
// packed ones, rows that lie as they are loaded, and rows through a patch of shared memory. Here
// are their pointers and registers, and what the loop over blocks of UNROLL steps does with them:
//   BEGIN_BLOCK(s): before the block that begins with step s,
//   LOAD_A(fa, u): fragments fa[PIECES][COUNT_M] of the block's step u,
//   NEXT_A(u): the loads that take the place of step u's,
//   END_BLOCK: behind the block.

#if A_PACKED
  tv_units pa = tv_units(packed_a_ptr) + (z * packed_a_z + m0 / 16 * LINE + FIRST_STEP * UNIT + lane);
  uvec4 ga[RING][PIECES][COUNT_M];
#define FETCH_A(slot, step) FOR(p, PIECES) FOR(i, COUNT_M) \
    ga[slot][p][i] = pa[(step) * UNIT + i * LINE + p * 32].v;
#define LOAD_A(fa, u) FOR(p, PIECES) FOR(i, COUNT_M) {                                             \
    FRAGMENT(fa[p][i], ga[(u) % RING][p][i], pa + ((u) * UNIT + i * LINE + p * 32) - lane,     \
             gl_CooperativeMatrixLayoutRowMajor) }
#define BEGIN_BLOCK(s)
#define NEXT_A(u) FETCH_A(u % RING, u + RING)
#define END_BLOCK pa += UNROLL * UNIT;
  FOR(r, RING) { FETCH_A(r, r) }
#elif DIRECT
  // Invocation (row, chunk) has this chunk of rows `row` and `row` + 8 of each fragment of two
  // steps.
  const uint row = lane / 4, chunk = lane % 4;
  tv_chunks pa = tv_chunks(a_ptr) + (BATCH_OFFSET(z, az) / 8);
  uint at_a[COUNT_M][2];
  FOR(i, COUNT_M) FOR(h, 2) at_a[i][h] = min(m0 + i * 16 + h * 8 + row, m_count - 1) * (a_ld / 8);
  Chunk ga[RING / 2][COUNT_M][2];
  uvec4 words[PIECES][COUNT_M][2];
  // Those of steps `step` and `step` + 1 behind step `base`; zeros past k.
#if WHOLE_K
#define FETCH_A(slot, base, step) FOR(i, COUNT_M) FOR(h, 2) {                                  \
    tv_chunks q_ = pa + (at_a[i][h] + (base) * 2 + chunk);                                     \
    ga[(slot) / 2][i][h] = LOAD_CHUNK(q_[(step) * 2]); }
#else
#define FETCH_A(slot, base, step) { const uint n_ = ((base) + (step)) * 2 + chunk;             \
    FOR(i, COUNT_M) FOR(h, 2) {                                                                \
      ga[(slot) / 2][i][h] = LOAD_CHUNK(pa[at_a[i][h] + min(n_, k_count / 8 - 1)]);            \
      if (n_ * 8 >= k_count) ga[(slot) / 2][i][h] = NO_CHUNK; } }
#endif
#define LOAD_A(fa, u) {                                                                            \
    if ((u) % 2 == 0) FOR(i, COUNT_M) FOR(h, 2) {                                              \
      Chunk c_ = ga[(u) % RING / 2][i][h];                                                     \
      FOR(p, PIECES) words[p][i][h] = split_chunk(c_, p); }                                    \
    FOR(p, PIECES) FOR(i, COUNT_M)                                                             \
      DIRECT_FRAGMENT(fa[p][i], words[p][i][0], words[p][i][1], (u) % 2) }
#define BEGIN_BLOCK(s) const uint here = FIRST_STEP + s, next = min(here + UNROLL, k_steps - UNROLL);
#define NEXT_A(u) if (u % 2 == 1) {                                                            \
    if (u - 1 + RING < UNROLL) { FETCH_A(u % RING, here, u - 1 + RING) }                       \
    else { FETCH_A(u % RING, next, u - 1 + RING - UNROLL) } }
#define END_BLOCK
  FOR(r, RING / 2) { FETCH_A(2 * r, FIRST_STEP, 2 * r) }
#else
  const uint patch_a = warp * (PIECES * PIECE_A);
  const uint NA = WM * UNROLL / 16;  // chunks of an invocation
  Chunk ra[NA];
  tv_chunks pa = tv_chunks(a_ptr) + (BATCH_OFFSET(z, az) / 8);
  uint at_a[NA];
  FOR(i, NA) {
    const uint c = i * 32 + lane, m = m0 + c / (UNROLL * 2);
    at_a[i] = min(m, m_count - 1) * (a_ld / 8) + c % (UNROLL * 2);
  }
  // Rows of the block of UNROLL steps that begins at `step`; zeros past k.
#if WHOLE_K
#define FETCH_ROWS(step) { const uint k2 = min(FIRST_STEP + (step), k_steps - UNROLL) * 2; \
    FOR(i, NA) ra[i] = LOAD_CHUNK(pa[k2 + at_a[i]]); }
#else
#define FETCH_ROWS(step) { const uint k2 = (FIRST_STEP + (step)) * 2;                      \
    FOR(i, NA) { ra[i] = NO_CHUNK;                                                         \
      if ((k2 + (i * 32 + lane) % (UNROLL * 2)) * 8 < k_count) ra[i] = LOAD_CHUNK(pa[k2 + at_a[i]]); } }
#endif
#define LOAD_A(fa, u) FOR(p, PIECES) FOR(i, COUNT_M) coopMatLoad(fa[p][i], sh, \
    patch_a + p * PIECE_A + i * 16 * LDA + (u) * 2, LDA, gl_CooperativeMatrixLayoutRowMajor);
#define BEGIN_BLOCK(s)                                                                         \
    FOR(i, NA) {                                                                               \
      const uint c = i * 32 + lane;                                                            \
      const uint at = patch_a + c / (UNROLL * 2) * LDA + c % (UNROLL * 2);                     \
      FOR(p, PIECES) sh[at + p * PIECE_A] = split_chunk(ra[i], p);                             \
    }                                                                                          \
    subgroupBarrier();                                                                         \
    FETCH_ROWS(s + UNROLL)
#define NEXT_A(u)
#define END_BLOCK subgroupBarrier();
  FETCH_ROWS(0u)
#endif
