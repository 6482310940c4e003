// Loads of attention_matrix.comp.

// 8 elements of row `row`, column 8 c, of an operand whose head begins at `first`.
#define CHUNK(x, first, row, ld, c) tv_ref_u32x4(x##_ptr).v[((first) + (row) * (ld)) / 8u + (c)]

/// Queries m … m + 15 into shared memory from `at` on; past the last the last again.
void copy_queries(uint m, uint at) {
  for (uint e = lane; e < 16u * (D / 8); e += gl_SubgroupSize) {
    const uint row = min(m + e / (D / 8), queries - 1u), c = e % (D / 8);
    sh[at + e / (D / 8) * LDK + c] = CHUNK(q, q_from, row, q_m, c);
  }
}
// The subgroup's queries into fragments rows[RB][D / 16], through 16 rows of shared memory from
// `at` on.
#define LOAD_QUERIES(rows, at)                                                                    \
  FOR(r, RB) {                                                                                    \
    copy_queries(row0 + r * 16u, at);                                                             \
    subgroupBarrier();                                                                            \
    FOR(c, D / 16) {                                                                              \
      coopMatLoad(rows[r][c], sh, (at) + c * 2u, LDK, gl_CooperativeMatrixLayoutRowMajor);        \
    }                                                                                             \
    subgroupBarrier();                                                                            \
  }

const uint NK = KEYS * (D / 8) / LOCAL_X, NV = KEYS * (DV / 8) / LOCAL_X;  // chunks an invocation
uvec4 next_k[NK], next_v[NV];  // of the tile that is on its way

// An invocation's chunks next[count] of the tile of keys or values (x, of `width` columns) from n0
// on.
#define FETCH_TILE(next, count, x, first, ld, width, thread, n0)                                  \
  FOR(i, count) {                                                                                 \
    const uint e = thread + i * LOCAL_X, n = (n0) + e / (width / 8), c = e % (width / 8);         \
    next[i] = n < keys ? CHUNK(x, first, n, ld, c) : uvec4(0u);                                   \
  }
void fetch(uint n0) {
  FETCH_TILE(next_k, NK, k, k_from, k_n, D, thread, n0)
  FETCH_TILE(next_v, NV, v, v_from, v_n, DV, thread, n0)
}

/// From there into shared memory.
void stash() {
  FOR(i, NK) {
    const uint e = thread + i * LOCAL_X;
    sh[e / (D / 8) * LDK + e % (D / 8)] = next_k[i];
  }
  FOR(i, NV) {
    const uint e = thread + i * LOCAL_X;
    sh[V_AT + e / (DV / 8) * LDV + e % (DV / 8)] = next_v[i];
  }
}
