// Fragments of a for matmul_fragments.comp, for the rows of a from m0 on: packed ones, rows that
// lie as they are loaded, and rows through a patch of shared memory. What the loop over blocks of
// UNROLL steps calls:
//   start_a(): before it,
//   begin_block_a(s): before the block that begins with step s,
//   split_a(u): before the fragments of the block's step u,
//   LOAD_A(fa, u): these, fa[PIECES][COUNT_M],
//   next_a(u): the loads that take the place of step u's,
//   end_block_a(): behind the block.

#if A_PACKED
tv_uvec4s pa;
uvec4 ga[RING][PIECES][COUNT_M];

void fetch_a(uint slot, uint step) {
  FOR(p, PIECES) FOR(i, COUNT_M) ga[slot][p][i] = pa[step * FRAG + i * LINE + p * 32].v;
}
void start_a() {
  pa = tv_uvec4s(packed_a_ptr) + (z * packed_a_z + m0 / 16 * LINE + FIRST_STEP * FRAG + lane);
  FOR(r, RING) fetch_a(r, r);
}
void begin_block_a(uint s) {}
void split_a(uint u) {}
#define LOAD_A(fa, u) FOR(p, PIECES) FOR(i, COUNT_M) {                                             \
    FRAGMENT(fa[p][i], ga[(u) % RING][p][i], pa + ((u) * FRAG + i * LINE + p * 32) - lane,     \
             gl_CooperativeMatrixLayoutRowMajor) }
void next_a(uint u) { fetch_a(u % RING, u + RING); }
void end_block_a() { pa += UNROLL * FRAG; }
#elif DIRECT
// Invocation (row, chunk) has this chunk of rows `row` and `row` + 8 of each fragment of two
// steps.
tv_chunks pa;
uint chunk, at_a[COUNT_M][2];
Chunk ga[RING / 2][COUNT_M][2];
uvec4 words[PIECES][COUNT_M][2];
uint here, next;  // the first steps of the block and of the next

// Those of steps `step` and `step` + 1 behind step `base`; zeros past k.
void fetch_a(uint slot, uint base, uint step) {
#if WHOLE_K
  FOR(i, COUNT_M) FOR(h, 2) {
    tv_chunks q = pa + (at_a[i][h] + base * 2 + chunk);
    ga[slot / 2][i][h] = LOAD_CHUNK(q[step * 2]);
  }
#else
  const uint n = (base + step) * 2 + chunk;
  FOR(i, COUNT_M) FOR(h, 2) {
    ga[slot / 2][i][h] = LOAD_CHUNK(pa[at_a[i][h] + min(n, k_count / 8 - 1)]);
    if (n * 8 >= k_count) ga[slot / 2][i][h] = NO_CHUNK;
  }
#endif
}
void start_a() {
  const uint row = lane / 4;
  chunk = lane % 4;
  pa = tv_chunks(a_ptr) + (BATCH_OFFSET(z, az) / 8);
  FOR(i, COUNT_M) FOR(h, 2) at_a[i][h] = min(m0 + i * 16 + h * 8 + row, m_count - 1) * (a_ld / 8);
  FOR(r, RING / 2) fetch_a(2 * r, FIRST_STEP, 2 * r);
}
void begin_block_a(uint s) {
  here = FIRST_STEP + s;
  next = min(here + UNROLL, k_steps - UNROLL);
}
void split_a(uint u) {
  if (u % 2 == 0) FOR(i, COUNT_M) FOR(h, 2) {
    Chunk c = ga[u % RING / 2][i][h];
    FOR(p, PIECES) words[p][i][h] = split_chunk(c, p);
  }
}
#define LOAD_A(fa, u) FOR(p, PIECES) FOR(i, COUNT_M)                                               \
    DIRECT_FRAGMENT(fa[p][i], words[p][i][0], words[p][i][1], (u) % 2)
void next_a(uint u) {
  if (u % 2 == 1) {
    if (u - 1 + RING < UNROLL) {
      fetch_a(u % RING, here, u - 1 + RING);
    } else {
      fetch_a(u % RING, next, u - 1 + RING - UNROLL);
    }
  }
}
void end_block_a() {}
#else
const uint NA = WM * UNROLL / 16;  // chunks of an invocation
tv_chunks pa;
uint patch_a, at_a[NA];
Chunk ra[NA];

// Rows of the block of UNROLL steps that begins at `step`; zeros past k.
void fetch_rows(uint step) {
#if WHOLE_K
  const uint k2 = min(FIRST_STEP + step, k_steps - UNROLL) * 2;
  FOR(i, NA) ra[i] = LOAD_CHUNK(pa[k2 + at_a[i]]);
#else
  const uint k2 = (FIRST_STEP + step) * 2;
  FOR(i, NA) {
    ra[i] = NO_CHUNK;
    if ((k2 + (i * 32 + lane) % (UNROLL * 2)) * 8 < k_count) ra[i] = LOAD_CHUNK(pa[k2 + at_a[i]]);
  }
#endif
}
void start_a() {
  patch_a = warp * (PIECES * PIECE_A);
  pa = tv_chunks(a_ptr) + (BATCH_OFFSET(z, az) / 8);
  FOR(i, NA) {
    const uint c = i * 32 + lane, m = m0 + c / (UNROLL * 2);
    at_a[i] = min(m, m_count - 1) * (a_ld / 8) + c % (UNROLL * 2);
  }
  fetch_rows(0u);
}
void begin_block_a(uint s) {
  FOR(i, NA) {
    const uint c = i * 32 + lane;
    const uint at = patch_a + c / (UNROLL * 2) * LDA + c % (UNROLL * 2);
    FOR(p, PIECES) sh[at + p * PIECE_A] = split_chunk(ra[i], p);
  }
  subgroupBarrier();
  fetch_rows(s + UNROLL);
}
void split_a(uint u) {}
#define LOAD_A(fa, u) FOR(p, PIECES) FOR(i, COUNT_M) coopMatLoad(fa[p][i], sh, \
    patch_a + p * PIECE_A + i * 16 * LDA + (u) * 2, LDA, gl_CooperativeMatrixLayoutRowMajor);
void next_a(uint u) {}
void end_block_a() { subgroupBarrier(); }
#endif
