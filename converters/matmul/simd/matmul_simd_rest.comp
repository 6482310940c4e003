// c[z][m][n] += sum over k from k_first on of a[z][m][k] * b[z][n / TILE][k][n % TILE]: what the
// unrolled launches of matmul_simd leave of a product whose k is symbolic.
//
// Grid: one invocation for each of `total` = z * rows * c_m sums.

void main() {
  const uint i = tv_group() * LOCAL_X + gl_LocalInvocationID.x;
  if (i >= total) return;
  const uint row = i / c_m, n = i - row * c_m, z = row / rows, m = row - z * rows;
  uint at_a = z * a_z + m * a_m + k_first;
  uint at_b = z * b_z + n / TILE * b_tile + n % TILE + k_first * b_k;
  const uint at_c = z * c_z + m * c_m + n;
  float sum = c_raw(at_c);
  for (uint k = k_first; k < k_count;) {
    const uint stop = min(k_count, k + 32u);
    float part = 0.0;
    for (; k < stop; k++) {
      part += a_raw(at_a) * b_raw(at_b);
      at_a++;
      at_b += b_k;
    }
    sum += part;
  }
  c_raw_store(at_c, sum);
}
