// Rows of a matrix of weights and of a, 16 elements at once, for products of few rows. DENSE: b holds
// floats; else it is quantised (quantised_weight.glsl). A4: rows of a are read four at a time.

#if DENSE
/// Elements k … k + 15 of row n, k a multiple of 16.
void weights_16(uint n, uint k, out vec4 w[4]) {
  [[unroll]] for (uint i = 0u; i < 4u; i++) w[i] = vec4(b_vec4(n * k_count + k + 4u * i));
}
#else
#include "quantised_words.glsl"

/// Elements k … k + 15 of row n, k a multiple of 16, less `zero`.
void weights_16(uint n, uint k, float zero, out vec4 w[4]) {
  vec4 v[FOURS];
#if BITS == 4
  const uvec2 words = two_words(n, k);
  unpack_word(words.x, zero, v);
  w[0] = v[0];
  w[1] = v[1];
  unpack_word(words.y, zero, v);
  w[2] = v[0];
  w[3] = v[1];
#else
  const uvec4 words = four_words(n, k);
  unpack_word(words.x, zero, v);
  w[0] = v[0];
  unpack_word(words.y, zero, v);
  w[1] = v[0];
  unpack_word(words.z, zero, v);
  w[2] = v[0];
  unpack_word(words.w, zero, v);
  w[3] = v[0];
#endif
}
#endif

vec4 a_four(uint m, uint k) {
#if A4
  return vec4(a_vec4(m * a_m + k));
#else
  vec4 v;
  [[unroll]] for (uint i = 0u; i < 4u; i++) v[i] = float(a_raw(m * a_m + (k + i) * a_k));
  return v;
#endif
}
