// y[z][m][k] = x[z][m][k] - zero[m] for k < k_count, 0 up to 4 * quads: rows of integers as floats,
// for matmul_quantised_simd. WORDS: x is dense and rows go in words; else any strides. ZERO: zero
// points lie zero_row apart. Four elements an invocation.

int zero_of(uint m) {
#if ZERO
  return int(zero_raw(m * zero_row));
#else
  return 0;
#endif
}

void main() {
  const uint id = tv_group() * LOCAL_X + gl_LocalInvocationID.x;
  if (id >= elements) return;
  const uint line = id / quads, k = (id - line * quads) * 4u, z = line / m_count;
  const uint m = line - z * m_count;
  const int zero = zero_of(m);
#if WORDS
  ivec4 v = ivec4(0);
  if (k < k_count) v = x_vec4(line * k_count + k) - zero;
#else
  ivec4 v;
  [[unroll]] for (uint i = 0u; i < 4u; i++) {
    v[i] = 0;
    if (k + i < k_count) v[i] = int(x_raw(z * x_z + m * x_m + (k + i) * x_k)) - zero;
  }
#endif
  y_raw_store4(id * 4u, vec4(v));
}
