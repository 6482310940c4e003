// Rows of a, four elements at once, for products of few rows. A4: they are read as vectors.

vec4 a_four(uint m, uint k) {
#if A4
  return vec4(a_vec4(m * a_m + k));
#else
  vec4 v;
  [[unroll]] for (uint i = 0u; i < 4u; i++) v[i] = float(a_raw(m * a_m + (k + i) * a_k));
  return v;
#endif
}
