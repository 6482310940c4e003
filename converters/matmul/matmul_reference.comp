// y[z][m][n] = sum over k of a[z][m][k] * b[z][k][n], one output an invocation.
//
// a, b: any strides and types; integers wrap. Blocks of 32 keep the rounding error of floats small.
// Grid: one invocation for each output.

#include "batch.glsl"

void main() {
  const uint i = tv_group() * LOCAL_X + gl_LocalInvocationID.x;
  const uint row = i / n_count, n = i - row * n_count;
  const uint z = row / m_count, m = row - z * m_count;
  if (i >= total) return;
  uint at_a = BATCH_OFFSET(z, az) + m * a_m, at_b = BATCH_OFFSET(z, bz) + n * b_n;
  y_T sum = y_T(0);
  for (uint k = 0u; k < k_count;) {
    const uint stop = min(k_count, k + 32u);
    y_T block = y_T(0);
    for (; k < stop; k++) {
      block += y_T(a_raw(at_a)) * y_T(b_raw(at_b));
      at_a += a_k;
      at_b += b_k;
    }
    sum += block;
  }
  y_store(i, sum);
}
