// y[m][n] = sum over k of a[m][k] * weight[n][k], of a quantised matrix (quantised_weight.glsl), for few
// rows of a: the packed bytes are read once, 16 elements an invocation and step.
//
// A subgroup of LANES_K invocations has COLS columns n and ROWS rows of a; its invocations share k. A
// group has a multiple of 16 steps of k. A4: rows of a are read four at a time.
// Grid: (ceil(n_count / (COLS * SUBGROUPS)), ceil(m_count / ROWS), 1); local SUBGROUPS * LANES_K.

#include "rows_of_weights.glsl"

void main() {
  const uint lane = gl_SubgroupInvocationID;
  const uint n0 = (gl_WorkGroupID.x * SUBGROUPS + gl_SubgroupID) * COLS;
  const uint m0 = gl_WorkGroupID.y * ROWS;
  float acc[ROWS][COLS];
  [[unroll]] for (uint r = 0u; r < ROWS; r++) {
    [[unroll]] for (uint c = 0u; c < COLS; c++) acc[r][c] = 0.0;
  }
  for (uint k = lane * 16u; k < k_count; k += LANES_K * 16u) {
    vec4 a[ROWS][4];
    [[unroll]] for (uint r = 0u; r < ROWS; r++) {
      const uint m = min(m0 + r, m_count - 1u);
      [[unroll]] for (uint i = 0u; i < 4u; i++) a[r][i] = a_four(m, k + 4u * i);
    }
    const uint group = k / GROUP;
    [[unroll]] for (uint c = 0u; c < COLS; c++) {
      const uint n = min(n0 + c, n_count - 1u);
      vec4 w[4];
      weights_16(n, k, w);
      const float zero = quantised_zero(n, group), scale = quantised_scale(n, group);
      [[unroll]] for (uint i = 0u; i < 4u; i++) w[i] -= zero;
      [[unroll]] for (uint r = 0u; r < ROWS; r++) {
        float part = 0.0;
        [[unroll]] for (uint i = 0u; i < 4u; i++) part += dot(a[r][i], w[i]);
        acc[r][c] = fma(part, scale, acc[r][c]);
      }
    }
  }
  [[unroll]] for (uint r = 0u; r < ROWS; r++) {
    [[unroll]] for (uint c = 0u; c < COLS; c++) {
      const float sum = subgroupAdd(acc[r][c]);
      const uint m = m0 + r, n = n0 + c;
      if (lane == (r * COLS + c) % LANES_K && m < m_count && n < n_count) {
        y_store(m * n_count + n, y_T(sum));
      }
    }
  }
}
