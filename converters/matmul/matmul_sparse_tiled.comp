// y[m][n] = sum over k of a[m][k] * weight[n][k], of a 2:4 sparse matrix (sparse_weight.glsl) that gets
// its zeros back on its way into shared memory.
//
// Tiles of BM x BN outputs a workgroup and RM x RN an invocation, BK steps of k at a time; sums are
// kept in blocks of BLOCK steps of k, so that the rounding error grows with k / BLOCK and not with k.
// a: any strides; A_BY_ROWS: neighbours in a row are neighbours in memory.
// Grid: (ceil(n_count / BN), ceil(m_count / BM), 1); local (BM / RM) * (BN / RN).

#include "epilogue.glsl"
#include "sparse_weight.glsl"

const uint THREADS_N = BN / RN, THREADS_M = BM / RM;
shared float tile_a[BK][BM + 1];
shared float tile_b[BK][BN + 1];

void main() {
  const uint thread = gl_LocalInvocationID.x, tx = thread % THREADS_N, ty = thread / THREADS_N;
  const uint m0 = gl_WorkGroupID.y * BM, n0 = gl_WorkGroupID.x * BN;
  float acc[RM][RN], block[RM][RN];
  [[unroll]] for (uint i = 0u; i < RM; i++) {
    [[unroll]] for (uint j = 0u; j < RN; j++) acc[i][j] = block[i][j] = 0.0;
  }
  for (uint k0 = 0u; k0 < k_count; k0 += BK) {
    [[unroll]] for (uint e = thread; e < BM * BK; e += LOCAL_X) {
#if A_BY_ROWS
      const uint k = e % BK, m = e / BK;
#else
      const uint m = e % BM, k = e / BM;
#endif
      float v = 0.0;
      if (m0 + m < m_count && k0 + k < k_count) {
        v = float(a_raw((m0 + m) * a_m + (k0 + k) * a_k));
      }
      tile_a[k][m] = v;
    }
    [[unroll]] for (uint e = thread; e < BN * BK / 4; e += LOCAL_X) {
      const uint k = e % (BK / 4) * 4, n = e / (BK / 4);
      vec4 v = vec4(0.0);
      if (n0 + n < n_count && k0 + k < k_count) v = sparse_four(n0 + n, k0 + k);
      [[unroll]] for (uint i = 0u; i < 4u; i++) tile_b[k + i][n] = v[i];
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
    if ((k0 + BK) % BLOCK == 0u || k0 + BK >= k_count) {
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
    PICK(p, r, RM * RN, v = acc[p / RN][p % RN])
    if (m < m_count && n < n_count) y_store(m * n_count + n, y_T(v));
  }
}
