// Rows of a matrix of weights and of a, 16 elements at once, for products of few rows. DENSE: b holds
// floats; else it is quantised (quantised_weight.glsl). A4: rows of a are read four at a time.

#if DENSE
/// Elements k … k + 15 of row n, k a multiple of 16.
void weights_16(uint n, uint k, out vec4 w[4]) {
  [[unroll]] for (uint i = 0u; i < 4u; i++) w[i] = vec4(b_vec4(n * k_count + k + 4u * i));
}
#else
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
void weights_16(uint n, uint k, out vec4 w[4]) {
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
