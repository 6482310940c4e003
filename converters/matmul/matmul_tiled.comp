// y[z][m][n] = sum over k of a[z][m][k] * b[z][k][n] for floats, summed in fp32.
//
// Tiles of BM x BN outputs a workgroup and RM x RN an invocation, BK steps of k at a time through
// shared memory; sums are kept in blocks of BLOCK steps of k, so that the rounding error grows with
// k / BLOCK and not with k. a, b: any strides; A_BY_ROWS (B_BY_ROWS): neighbours in a row are
// neighbours in memory, else those in a column, so that the loads coalesce. SPLIT workgroups share
// the steps of k of a tile, k_per_split each, a multiple of BK; y is then [SPLIT][z][m][n] of sums
// (matmul_split_k.comp). Grid: (ceil(n_count / BN), ceil(m_count / BM), SPLIT * z); local (BM / RM)
// * (BN / RN).

#include "batch.glsl"
#include "epilogue.glsl"

const uint THREADS_N = BN / RN, THREADS_M = BM / RM;
shared float tile_a[BK][BM + 1];
shared float tile_b[BK][BN + 1];

void main() {
  const uint thread = gl_LocalInvocationID.x, tx = thread % THREADS_N, ty = thread / THREADS_N;
  const uint m0 = gl_WorkGroupID.y * BM, n0 = gl_WorkGroupID.x * BN;
#if SPLIT > 1
  const uint z = gl_WorkGroupID.z % matrices, k_first = gl_WorkGroupID.z / matrices * k_per_split;
  const uint k_end = min(k_count, k_first + k_per_split);
#else
  const uint z = gl_WorkGroupID.z, k_first = 0u, k_end = k_count;
#endif
  const uint base_a = BATCH_OFFSET(z, az), base_b = BATCH_OFFSET(z, bz);

  float acc[RM][RN], block[RM][RN];
  [[unroll]] for (uint i = 0u; i < RM; i++) {
    [[unroll]] for (uint j = 0u; j < RN; j++) acc[i][j] = block[i][j] = 0.0;
  }

  for (uint k0 = k_first; k0 < k_end; k0 += BK) {
    [[unroll]] for (uint e = thread; e < BM * BK; e += LOCAL_X) {
#if A_BY_ROWS
      const uint k = e % BK, m = e / BK;
#else
      const uint m = e % BM, k = e / BM;
#endif
      float v = 0.0;
      if (m0 + m < m_count && k0 + k < k_end) {
        v = float(a_raw(base_a + (m0 + m) * a_m + (k0 + k) * a_k));
      }
      tile_a[k][m] = v;
    }
    [[unroll]] for (uint e = thread; e < BN * BK; e += LOCAL_X) {
#if B_BY_ROWS
      const uint n = e % BN, k = e / BN;
#else
      const uint k = e % BK, n = e / BK;
#endif
      float v = 0.0;
      if (n0 + n < n_count && k0 + k < k_end) {
        v = float(b_raw(base_b + (k0 + k) * b_k + (n0 + n) * b_n));
      }
      tile_b[k][n] = v;
    }
    barrier();
    [[unroll]] for (uint k = 0u; k < BK; k++) {
      float a[RM], b[RN];
      [[unroll]] for (uint i = 0u; i < RM; i++) a[i] = tile_a[k][ty + i * THREADS_M];
      [[unroll]] for (uint j = 0u; j < RN; j++) b[j] = tile_b[k][tx + j * THREADS_N];
      [[unroll]] for (uint i = 0u; i < RM; i++) {
        [[unroll]] for (uint j = 0u; j < RN; j++) block[i][j] = fma(a[i], b[j], block[i][j]);
      }
    }
    if ((k0 + BK) % BLOCK == 0u || k0 + BK >= k_end) {
      [[unroll]] for (uint i = 0u; i < RM; i++) {
        [[unroll]] for (uint j = 0u; j < RN; j++) {
          acc[i][j] += block[i][j];
          block[i][j] = 0.0;
        }
      }
    }
    barrier();
  }
  EACH_STORE(r, RM * RN) {
    const uint m = m0 + ty + r / RN * THREADS_M, n = n0 + tx + r % RN * THREADS_N;
    float v;
    PICK(q, r, RM * RN, v = acc[q / RN][q % RN])
    if (m < m_count && n < n_count) y_store((gl_WorkGroupID.z * m_count + m) * n_count + n, y_T(v));
  }
}
