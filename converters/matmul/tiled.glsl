// What products by tiles in shared memory have in common: BM x BN outputs a workgroup and RM x RN
// an invocation, BK steps of k at a time. Sums are kept in blocks of BLOCK steps of k, so that the
// rounding error grows with k / BLOCK and not with k.
//
// a: any strides; A_BY_ROWS: neighbours in a row are neighbours in memory, else those in a column,
// so that the loads coalesce.
// Local (BM / RM) * (BN / RN): invocation (tx, ty) has the outputs (ty + i THREADS_M, tx + j
// THREADS_N).

const uint THREADS_N = BN / RN, THREADS_M = BM / RM;
shared float tile_a[BK][BM + 1];
shared float tile_b[BK][BN + 1];

void clear(out float sums[RM][RN]) {
  [[unroll]] for (uint i = 0u; i < RM; i++) {
    [[unroll]] for (uint j = 0u; j < RN; j++) sums[i][j] = 0.0;
  }
}

/// Rows from m0 on of the matrix of a that begins at `from`, steps of k from k0 on; zeros behind.
void load_a(uint from, uint m0, uint k0, uint k_end) {
  [[unroll]] for (uint e = gl_LocalInvocationID.x; e < BM * BK; e += LOCAL_X) {
#if A_BY_ROWS
    const uint k = e % BK, m = e / BK;
#else
    const uint m = e % BM, k = e / BM;
#endif
    float v = 0.0;
    if (m0 + m < m_count && k0 + k < k_end) {
      v = float(a_raw(from + (m0 + m) * a_m + (k0 + k) * a_k));
    }
    tile_a[k][m] = v;
  }
}

void add_products(uint tx, uint ty, inout float sums[RM][RN]) {
  [[unroll]] for (uint k = 0u; k < BK; k++) {
    float a[RM], b[RN];
    [[unroll]] for (uint i = 0u; i < RM; i++) a[i] = tile_a[k][ty + i * THREADS_M];
    [[unroll]] for (uint j = 0u; j < RN; j++) b[j] = tile_b[k][tx + j * THREADS_N];
    [[unroll]] for (uint i = 0u; i < RM; i++) {
      [[unroll]] for (uint j = 0u; j < RN; j++) sums[i][j] = fma(a[i], b[j], sums[i][j]);
    }
  }
}

/// Ends a block: what it holds goes to the sums.
void add_block(inout float block[RM][RN], inout float sums[RM][RN]) {
  [[unroll]] for (uint i = 0u; i < RM; i++) {
    [[unroll]] for (uint j = 0u; j < RN; j++) {
      sums[i][j] += block[i][j];
      block[i][j] = 0.0;
    }
  }
}
