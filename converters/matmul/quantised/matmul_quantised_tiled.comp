// y[m][n] = sum over k of a[m][k] * weight[n][k], of a quantised matrix (quantised_weight.glsl)
// that is dequantised on its way into shared memory, by tiles (tiled.glsl).
// Grid: (ceil(n_count / BN), ceil(m_count / BM), 1).

#include "epilogue.glsl"
#include "quantised_weight.glsl"
#include "tiled.glsl"

void load_b(uint n0, uint k0) {
  [[unroll]] for (uint e = gl_LocalInvocationID.x; e < BN * BK; e += LOCAL_X) {
    const uint k = e % BK, n = e / BK;
    const bool inside = n0 + n < n_count && k0 + k < k_count;
    float v = 0.0;
    if (inside) v = quantised_weight(n0 + n, k0 + k);
    tile_b[k][n] = v;
  }
}

void main() {
  const uint thread = gl_LocalInvocationID.x, tx = thread % THREADS_N, ty = thread / THREADS_N;
  const uint m0 = gl_WorkGroupID.y * BM, n0 = gl_WorkGroupID.x * BN;
  float sums[RM][RN], block[RM][RN];
  clear(sums);
  clear(block);
  for (uint k0 = 0u; k0 < k_count; k0 += BK) {
    load_a(0u, m0, k0, k_count);
    load_b(n0, k0);
    barrier();
    add_products(tx, ty, block);
    if ((k0 + BK) % BLOCK == 0u || k0 + BK >= k_count) add_block(block, sums);
    barrier();
  }
  EACH_STORE(r, RM * RN) {
    const uint m = m0 + ty + r / RN * THREADS_M, n = n0 + tx + r % RN * THREADS_N;
    float v;
    PICK(q, r, RM * RN, v = sums[q / RN][q % RN])
    if (m < m_count && n < n_count) y_store(m * n_count + n, y_T(v));
  }
}
