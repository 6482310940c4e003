// Loads of attention_matrix.comp.

// 8 elements of row `row`, column 8 c, of an operand whose head begins at `first`.
#define CHUNK(x, first, row, ld, c) tv_ref_u32x4(x##_ptr).v[((first) + (row) * (ld)) / 8u + (c)]

// Queries row0 … of the head at `first` into fragments rows[RB][D / 16], through 16 rows of shared
// memory from `at` on.
#define LOAD_QUERIES(rows, first, row0, at, lane)                                                 \
  FOR(r, RB) {                                                                                    \
    for (uint e = lane; e < 16u * (D / 8); e += gl_SubgroupSize) {                                \
      const uint m = min(row0 + r * 16u + e / (D / 8), queries - 1u), c = e % (D / 8);            \
      sh[at + e / (D / 8) * LDK + c] = CHUNK(q, first, m, q_m, c);                                \
    }                                                                                             \
    subgroupBarrier();                                                                            \
    FOR(c, D / 16) {                                                                              \
      coopMatLoad(rows[r][c], sh, at + c * 2u, LDK, gl_CooperativeMatrixLayoutRowMajor);          \
    }                                                                                             \
    subgroupBarrier();                                                                            \
  }

const uint NK = KEYS * (D / 8) / LOCAL_X, NV = KEYS * (DV / 8) / LOCAL_X;  // chunks an invocation

// An invocation's chunks next[count] of the tile of keys or values (x, of `width` columns) from n0
// on.
#define FETCH_TILE(next, count, x, first, ld, width, thread, n0)                                  \
  FOR(i, count) {                                                                                 \
    const uint e = thread + i * LOCAL_X, n = (n0) + e / (width / 8), c = e % (width / 8);         \
    next[i] = n < keys ? CHUNK(x, first, n, ld, c) : uvec4(0u);                                   \
  }
#define FETCH(next_k, next_v, first_k, first_v, thread, n0)                                       \
  FETCH_TILE(next_k, NK, k, first_k, k_n, D, thread, n0)                                          \
  FETCH_TILE(next_v, NV, v, first_v, v_n, DV, thread, n0)
// From there into shared memory.
#define STASH(next_k, next_v, thread)                                                             \
  FOR(i, NK) {                                                                                    \
    const uint e = thread + i * LOCAL_X;                                                          \
    sh[e / (D / 8) * LDK + e % (D / 8)] = next_k[i];                                              \
  }                                                                                               \
  FOR(i, NV) {                                                                                    \
    const uint e = thread + i * LOCAL_X;                                                          \
    sh[V_AT + e / (DV / 8) * LDV + e % (DV / 8)] = next_v[i];                                     \
  }
