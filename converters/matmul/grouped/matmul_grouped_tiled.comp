// matmul_grouped_reference.comp for many rows: tiles of BM x BN outputs a workgroup, 4 x 4 an
// invocation, BK steps of k at a time through shared memory. A tile multiplies its rows by the
// matrix of each group that has some of them, in turn, those of other groups being zeros.
// Grid: (ceil(n_count / BN), ceil(rows / BM), 1); local BM * BN / 16.

#define FOR(i, n) [[unroll]] for (uint i = 0u; i < uint(n); i++)

const uint LDA = BM + 4, LDB = BN + 4;
shared float sa[BK * LDA];
shared float sb[BK * LDB];

/// Four steps of k of one row or column into a tile.
#define STASH(tile, ld, at, k, v) FOR(j, 4) tile[((k) + j) * ld + at] = v[j];

void main() {
  const uint tid = gl_LocalInvocationID.x, tx = tid % (BN / 4), ty = tid / (BN / 4);
  const uint m0 = gl_WorkGroupID.y * BM, n0 = gl_WorkGroupID.x * BN, behind = min(m0 + BM, rows);
  vec4 acc[4];
  FOR(i, 4) acc[i] = vec4(0.0);
  uint begin = 0u;
  for (uint e = 0u; e < groups; e++) {
    const ends_T given = ends_raw(e);
    const uint end = given <= ends_T(begin) ? begin : given >= ends_T(rows) ? rows : uint(given);
    const uint from = max(begin, m0), to = min(end, behind);
    begin = end;
    if (from >= to) continue;
    for (uint k0 = 0u; k0 < k_count; k0 += BK) {
      for (uint i = tid; i < BM * BK / 4; i += LOCAL_X) {
        const uint m = i / (BK / 4), k = i % (BK / 4) * 4u;
        vec4 v = vec4(0.0);
        if (m0 + m >= from && m0 + m < to && k0 + k < k_count)
          v = vec4(a_vec4((m0 + m) * k_count + k0 + k));
        STASH(sa, LDA, m, k, v)
      }
      for (uint i = tid; i < BN * BK / 4; i += LOCAL_X) {
        const uint n = i / (BK / 4), k = i % (BK / 4) * 4u;
        vec4 v = vec4(0.0);
        if (n0 + n < n_count && k0 + k < k_count) {
          v = vec4(b_vec4((e * n_count + n0 + n) * k_count + k0 + k));
        }
        STASH(sb, LDB, n, k, v)
      }
      barrier();
      FOR(k, BK) {
        vec4 x;
        FOR(j, 4) x[j] = sb[k * LDB + tx * 4u + j];
        FOR(i, 4) acc[i] = fma(vec4(sa[k * LDA + ty * 4u + i]), x, acc[i]);
      }
      barrier();
    }
  }
  FOR(i, 4) FOR(j, 4) {
    const uint m = m0 + ty * 4u + i, n = n0 + tx * 4u + j;
    if (m < rows && n < n_count) y_store(m * n_count + n, y_T(acc[i][j]));
  }
}
