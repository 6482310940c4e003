// matmul_rows.comp, one output an invocation: formula and defines as there.
// Grid: flat, m_count * n_count.

#if !DENSE
#include "quantised_weight.glsl"
#endif
#if NORM
NORM_FUNCTION
#endif
#if GATED
GATE_FUNCTION
#endif

float weight_at(uint n, uint k) {
#if DENSE
  return float(b_raw(n * k_count + k));
#else
  return quantised_weight(n, k);
#endif
}

float sum_of(uint m, uint n, float inverse) {
  float sum = 0.0;
  for (uint k = 0u; k < k_count; k++) {
    float x = float(a_raw(m * k_count + k));
#if NORM
    NORMED_ONE(x * inverse, k, x)
#endif
    sum = fma(x, weight_at(n, k), sum);
  }
  return sum;
}

void main() {
  const uint id = tv_group() * LOCAL_X + gl_LocalInvocationID.x;
  if (id >= m_count * n_count) return;
  const uint m = id / n_count, n = id - m * n_count;
  float inverse = 1.0;
#if NORM
  float squares = 0.0;
  for (uint k = 0u; k < k_count; k++) {
    const float x = float(a_raw(m * k_count + k));
    squares = fma(x, x, squares);
  }
  inverse = tv_rsqrt(tv_div(squares, float(k_count)) + eps);
#endif
#if GATED
  const float first = sum_of(m, n, inverse), second = sum_of(m, n + n_count, inverse);
  float sum;
  GATE(first, second, sum)
#else
  const float sum = sum_of(m, n, inverse);
#endif
  y_store(id, y_T(sum));
}
