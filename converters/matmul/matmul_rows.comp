// y[m][n] = sum over k of f(a[m][k]) * weight[n][k], for few rows of a: every weight is read once, 16
// elements an invocation and step (rows_of_weights.glsl).
//
// NORM: f is the program `normed` of a[m][k] / sqrt(mean over k of a[m][k]² + eps), else a itself.
// GATED: weight has 2 * n_count rows, and y is the program `gated` of the sums of rows n and
// n + n_count.
// A subgroup of LANES_K invocations has COLS (2) rows of weight and ROWS rows of a; its invocations share k.
// Grid: (ceil(n_count / (OUTPUTS * SUBGROUPS)), ceil(m_count / ROWS), 1); local SUBGROUPS * LANES_K.

#include "rows_of_weights.glsl"

#if NORM
NORM_FUNCTION
#endif
#if GATED
GATE_FUNCTION
#define OUTPUTS (COLS / 2u)
#else
#define OUTPUTS COLS
#endif

/// The row of weight that column c of a subgroup multiplies.
uint weight_row(uint n0, uint c) {
#if GATED
  return min(n0 + c / 2u, n_count - 1u) + (c % 2u) * n_count;
#else
  return min(n0 + c, n_count - 1u);
#endif
}

// Column c of a subgroup, of which there are two: written out, as compilers may keep a loop around so much.
#if DENSE
#define LOAD_WEIGHTS(n, w) weights_16(n, k, w);
#define SCALE_OF(n) 1.0
#else
#define LOAD_WEIGHTS(n, w) weights_16(n, k, quantised_zero(n, group), w);
#define SCALE_OF(n) quantised_scale(n, group)
#endif
#define ADD_COLUMN(c) {                                                                         \
    const uint n = weight_row(n0, c);                                                           \
    const float scale = SCALE_OF(n);                                                            \
    vec4 w[4];                                                                                  \
    LOAD_WEIGHTS(n, w)                                                                          \
    [[unroll]] for (uint r = 0u; r < ROWS; r++) {                                               \
      float part = 0.0;                                                                         \
      [[unroll]] for (uint i = 0u; i < 4u; i++) part += dot(a[r][i], w[i]);                     \
      acc[r][c] = fma(part, scale, acc[r][c]);                                                  \
    } }

void main() {
  const uint lane = gl_SubgroupInvocationID;
  const uint n0 = (gl_WorkGroupID.x * SUBGROUPS + gl_SubgroupID) * OUTPUTS;
  const uint m0 = gl_WorkGroupID.y * ROWS;
#if NORM
  float inverse[ROWS];
  [[unroll]] for (uint r = 0u; r < ROWS; r++) {
    float squares = 0.0;
    for (uint k = lane * 4u; k < k_count; k += LANES_K * 4u) {
      const vec4 v = a_four(min(m0 + r, m_count - 1u), k);
      squares += dot(v, v);
    }
    inverse[r] = tv_rsqrt(tv_div(subgroupAdd(squares), float(k_count)) + eps);
  }
#endif
  float acc[ROWS][COLS];
  [[unroll]] for (uint r = 0u; r < ROWS; r++) {
    [[unroll]] for (uint c = 0u; c < COLS; c++) acc[r][c] = 0.0;
  }
  for (uint k = lane * 16u; k < k_count; k += LANES_K * 16u) {
    vec4 a[ROWS][4];
    [[unroll]] for (uint i = 0u; i < 4u; i++) {
#if NORM
      NORM_WEIGHTS(k + 4u * i)
#endif
      [[unroll]] for (uint r = 0u; r < ROWS; r++) {
        a[r][i] = a_four(min(m0 + r, m_count - 1u), k + 4u * i);
#if NORM
        const vec4 x = a[r][i] * inverse[r];
        NORMED(x, a[r][i])
#endif
      }
    }
#if !DENSE
    const uint group = k / group_steps;
#endif
    ADD_COLUMN(0)
    ADD_COLUMN(1)
  }
  [[unroll]] for (uint r = 0u; r < ROWS; r++) {
    [[unroll]] for (uint o = 0u; o < OUTPUTS; o++) {
#if GATED
      const float first = subgroupAdd(acc[r][2u * o]), second = subgroupAdd(acc[r][2u * o + 1u]);
      float sum;
      GATE(first, second, sum)
#else
      const float sum = subgroupAdd(acc[r][o]);
#endif
      const uint m = m0 + r, n = n0 + o;
      if (lane == (r * OUTPUTS + o) % LANES_K && m < m_count && n < n_count) {
        y_store(m * n_count + n, y_T(sum));
      }
    }
  }
}
