// y[m][n] = sum over k of a[m][k] * b[k][n]: 8-bit integers, sums of 32 bits that wrap. a, b: any
// strides. One result an invocation.

void main() {
  const uint id = tv_group() * LOCAL_X + gl_LocalInvocationID.x;
  if (id >= elements) return;
  const uint m = id / n_count, n = id - m * n_count;
  int sum = 0;
  for (uint k = 0; k < k_count; k++)
    sum += a_raw(m * a_m + k * a_k) * b_raw(k * b_k + n * b_n);
  y_store(id, sum);
}
