// y[z][m][n] = sum over k of a[z][m][k] * b[z][k][n] for floats, summed in fp32, by tiles
// (tiled.glsl).
//
// b: any strides; B_BY_ROWS as A_BY_ROWS there. SPLIT workgroups share the steps of k of a tile,
// k_per_split each, a multiple of BK; y is then [SPLIT][z][m][n] of sums (matmul_split_k.comp).
// Grid: (ceil(n_count / BN), ceil(m_count / BM), SPLIT * z).

#include "batch.glsl"
#include "epilogue.glsl"
#include "tiled.glsl"

/// Columns from n0 on of the matrix of b that begins at `from`.
void load_b(uint from, uint n0, uint k0, uint k_end) {
  [[unroll]] for (uint e = gl_LocalInvocationID.x; e < BN * BK; e += LOCAL_X) {
#if B_BY_ROWS
    const uint n = e % BN, k = e / BN;
#else
    const uint k = e % BK, n = e / BK;
#endif
    float v = 0.0;
    if (n0 + n < n_count && k0 + k < k_end) {
      v = float(b_raw(from + (k0 + k) * b_k + (n0 + n) * b_n));
    }
    tile_b[k][n] = v;
  }
}

void main() {
  const uint thread = gl_LocalInvocationID.x, tx = thread % THREADS_N, ty = thread / THREADS_N;
  const uint m0 = gl_WorkGroupID.y * BM, n0 = gl_WorkGroupID.x * BN;
#if SPLIT > 1
  const uint z = gl_WorkGroupID.z % matrices, k_first = gl_WorkGroupID.z / matrices * k_per_split;
  const uint k_end = min(k_count, k_first + k_per_split);
#else
  const uint z = gl_WorkGroupID.z, k_first = 0u, k_end = k_count;
#endif
  const uint from_a = BATCH_OFFSET(z, az), from_b = BATCH_OFFSET(z, bz);
  float sums[RM][RN], block[RM][RN];
  clear(sums);
  clear(block);
  for (uint k0 = k_first; k0 < k_end; k0 += BK) {
    load_a(from_a, m0, k0, k_end);
    load_b(from_b, n0, k0, k_end);
    barrier();
    add_products(tx, ty, block);
    if ((k0 + BK) % BLOCK == 0u || k0 + BK >= k_end) add_block(block, sums);
    barrier();
  }
  EACH_STORE(r, RM * RN) {
    const uint m = m0 + ty + r / RN * THREADS_M, n = n0 + tx + r % RN * THREADS_N;
    float v;
    PICK(q, r, RM * RN, v = sums[q / RN][q % RN])
    if (m < m_count && n < n_count) y_store((gl_WorkGroupID.z * m_count + m) * n_count + n, y_T(v));
  }
}
