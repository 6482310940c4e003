// Rows of a matrix of weights, PASSES times 16 elements at once, for products of few rows. DENSE: b
// holds floats; else it is quantised (quantised_words.glsl). WIDE: elements of 4 bits, 32 at once.

#if DENSE
#define PASSES 1
struct Words { b_V v[4]; };
/// Elements k … k + 15 of row n, k a multiple of 16.
Words words_of(uint n, uint k) {
  Words words;
  [[unroll]] for (uint i = 0u; i < 4u; i++) words.v[i] = b_vec4(n * k_count + k + 4u * i);
  return words;
}
#define words_of_pass(words, pass) words
void unpack_16(Words words, float zero, out vec4 w[4]) {
  [[unroll]] for (uint i = 0u; i < 4u; i++) w[i] = vec4(words.v[i]);
}
#else
#include "quantised_words.glsl"

#if BITS == 4
#if WIDE
#define PASSES 2
#define Words uvec4
#define words_of four_words
#define words_of_pass(words, pass) (pass == 0 ? words.xy : words.zw)
#else
#define PASSES 1
#define Words uvec2
#define words_of two_words
#define words_of_pass(words, pass) words
#endif
void unpack_16(uvec2 words, float zero, out vec4 w[4]) {
  vec4 v[FOURS];
  unpack_word(words.x, zero, v);
  w[0] = v[0];
  w[1] = v[1];
  unpack_word(words.y, zero, v);
  w[2] = v[0];
  w[3] = v[1];
}
#else
#define PASSES 1
#define Words uvec4
#define words_of four_words
#define words_of_pass(words, pass) words
void unpack_16(uvec4 words, float zero, out vec4 w[4]) {
  vec4 v[FOURS];
  unpack_word(words.x, zero, v);
  w[0] = v[0];
  unpack_word(words.y, zero, v);
  w[1] = v[0];
  unpack_word(words.z, zero, v);
  w[2] = v[0];
  unpack_word(words.w, zero, v);
  w[3] = v[0];
}
#endif
#endif
