// y[z][m][n] = sum over k of (a[z][m][k] - a_zero[m]) * (b[z][n][k] - b_zero[n]): four bytes at
// once from shared memory, sums of 32 bits that wrap.
//
// Rows of a and b are dense and `quads` words long; bytes past k_count are 0 in both. A_FLIP,
// B_FLIP make signed bytes of them (integer_shift.glsl). Tiles of BM x BN results a workgroup and
// RM x RN an invocation, BK words at a time.
// Grid: (ceil(n_count / BN), ceil(m_count / BM), z); local (BM / RM) * (BN / RN).

#include "epilogue.glsl"
#include "integer_dot.glsl"
#include "integer_shift.glsl"

const uint THREADS_N = BN / RN, THREADS_M = BM / RM;
shared uint tile_a[BK][BM + 1];
shared uint tile_b[BK][BN + 1];

void main() {
  const uint thread = gl_LocalInvocationID.x, tx = thread % THREADS_N, ty = thread / THREADS_N;
  const uint m0 = gl_WorkGroupID.y * BM, n0 = gl_WorkGroupID.x * BN, z = gl_WorkGroupID.z;
  int acc[RM][RN], a_sums[RM];
  [[unroll]] for (uint i = 0u; i < RM; i++) {
    a_sums[i] = 0;
    [[unroll]] for (uint j = 0u; j < RN; j++) acc[i][j] = 0;
  }
  for (uint q0 = 0u; q0 < quads; q0 += BK) {
    [[unroll]] for (uint e = thread; e < BM * BK; e += LOCAL_X) {
      const uint q = e % BK, row = z * m_count + min(m0 + e / BK, m_count - 1u);
      const uint word = integer_word(uint64_t(a_ptr), row * quads + min(q0 + q, quads - 1u));
      tile_a[q][e / BK] = q0 + q < quads ? word ^ A_FLIP : 0u;
    }
    [[unroll]] for (uint e = thread; e < BN * BK; e += LOCAL_X) {
      const uint q = e % BK, row = z * b_rows + min(n0 + e / BK, n_count - 1u);
      const uint word = integer_word(uint64_t(b_ptr), row * quads + min(q0 + q, quads - 1u));
      tile_b[q][e / BK] = q0 + q < quads ? word ^ B_FLIP : 0u;
    }
    barrier();
    [[unroll]] for (uint q = 0u; q < BK; q++) {
      uint a[RM], b[RN];
      [[unroll]] for (uint i = 0u; i < RM; i++) a[i] = tile_a[q][ty + i * THREADS_M];
      [[unroll]] for (uint j = 0u; j < RN; j++) b[j] = tile_b[q][tx + j * THREADS_N];
      [[unroll]] for (uint i = 0u; i < RM; i++) {
        [[unroll]] for (uint j = 0u; j < RN; j++) acc[i][j] += integer_dot(a[i], b[j]);
#if B_SHIFTED
        a_sums[i] += integer_dot(a[i], 0x01010101u);
#endif
      }
    }
    barrier();
  }
  EACH_STORE(r, RM * RN) {
    const uint m = m0 + ty + r / RN * THREADS_M, n = n0 + tx + r % RN * THREADS_N;
    int v, a_sum;
    PICK(p, r, RM * RN, v = acc[p / RN][p % RN]; a_sum = a_sums[p / RN])
    if (m < m_count && n < n_count) {
      y_store((z * m_count + m) * n_count + n,
              integer_shifted(v, a_sum, B_SUM(z * b_rows + n), m, n));
    }
  }
}
