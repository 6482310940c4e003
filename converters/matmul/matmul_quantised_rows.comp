// y[m][n] = sum over k of a[m][k] * weight[n][k], of a quantised matrix (quantised_weight.glsl), for few
// rows of a: the packed bytes are read once, 16 elements an invocation and step.
//
// A subgroup of LANES_K invocations has COLS columns n and ROWS rows of a; its invocations share k. A
// group has a multiple of 16 steps of k. A4: rows of a are read four at a time.
// Grid: (ceil(n_count / (COLS * SUBGROUPS)), ceil(m_count / ROWS), 1); local SUBGROUPS * LANES_K.

#include "quantised_weight.glsl"

uint64_t quantised_at(uint offset_bytes, uint bytes) {
  const uint64_t at = uint64_t(q_ptr) + uint64_t(offset_bytes);
#if TV_CHECK
  return tv_check_ptr(at, bytes);
#else
  return at;
#endif
}

/// Elements k … k + 15 of row n, k a multiple of 16.
void quantised_16(uint n, uint k, out vec4 w[4]) {
#if BITS == 4
  const uvec2 words = tv_ref_u32x2(quantised_at(n * ROW_BYTES + k / 2u, 8u)).v[0];
  [[unroll]] for (uint i = 0u; i < 4u; i++) {
    const uint word = words[i / 2u] >> (i % 2u * 16u);
    w[i] = vec4(word & 15u, word >> 4 & 15u, word >> 8 & 15u, word >> 12 & 15u);
  }
#else
  const uvec4 words = tv_ref_u32x4(quantised_at(n * ROW_BYTES + k, 16u)).v[0];
  [[unroll]] for (uint i = 0u; i < 4u; i++) {
#if SIGNED
    w[i] = vec4(tv_i8x4(words[i]));
#else
    w[i] = vec4(tv_u8x4(words[i]));
#endif
  }
#endif
}

vec4 a_four(uint m, uint k) {
#if A4
  return vec4(a_vec4(m * a_m + k));
#else
  vec4 v;
  [[unroll]] for (uint i = 0u; i < 4u; i++) v[i] = float(a_raw(m * a_m + (k + i) * a_k));
  return v;
#endif
}

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
      quantised_16(n, k, w);
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
