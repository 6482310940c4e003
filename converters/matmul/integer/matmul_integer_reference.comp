// y[z][m][n] = sum over k of (a[z][m][k] - a_zero[m]) * (b[z][n][k] - b_zero[n]): 8-bit integers,
// sums of 32 bits that wrap. a, b: any strides. One result an invocation.

#include "integer_zeros.glsl"

void main() {
  const uint id = tv_group() * LOCAL_X + gl_LocalInvocationID.x;
  if (id >= elements) return;
  const uint row = id / n_count, n = id - row * n_count, z = row / m_count, m = row - z * m_count;
  const int a_zero = a_zero_of(m), b_zero = b_zero_of(n);
  int sum = 0;
  for (uint k = 0u; k < k_count; k++) {
    sum += (a_raw(z * a_z + m * a_m + k * a_k) - a_zero) *
           (b_raw(z * b_z + n * b_n + k * b_k) - b_zero);
  }
  y_store(id, sum);
}
