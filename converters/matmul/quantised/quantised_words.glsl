// Elements of a quantised matrix (quantised_weight.glsl) cut out of 32-bit words, less their zero
// point, without conversions.
//
// The lowest bits of a float32 of 2^23 hold a small integer that is added to it, those of 2^(23 -
// s) hold it s bits higher: so an element is masked where it lies, joined with such a number's
// bits, and the number is subtracted again, together with the zero point. ZERO_FITS: zero points
// are small integers, so that the difference is exact; else one is subtracted after the other.
// SIGNED: bytes are int8. CODES: of small floating-point numbers, which are looked at one by one.

#include "quantised_weight.glsl"

#if CODES
const uint FOURS = BITS == 4 ? 2 : 1;  // vectors of four elements in a word

/// The elements of a word in order; they have no zero points.
void unpack_word(uint word, float zero, out vec4 v[FOURS]) {
  const uint mask = BITS == 4 ? 15u : 255u;
  [[unroll]] for (uint i = 0u; i < FOURS; i++) {
    const uint w = word >> (16u * i);
    v[i] = vec4(FROM_CODE(w & mask), FROM_CODE(w >> BITS & mask), FROM_CODE(w >> 2 * BITS & mask),
                FROM_CODE(w >> 3 * BITS & mask));
  }
}
#else
vec4 without_offset(uvec4 bits, vec4 number, float zero) {
#if ZERO_FITS
  precise const vec4 offset = number + zero;
  precise const vec4 r = uintBitsToFloat(bits) - offset;
#else
  precise const vec4 r = (uintBitsToFloat(bits) - number) - zero;
#endif
  return r;
}

#if BITS == 4
const uint FOURS = 2;  // vectors of four elements in a word

/// The elements of a word in order, less `zero`.
void unpack_word(uint word, float zero, out vec4 v[FOURS]) {
  const uint high = word >> 20;
  v[0] = without_offset(uvec4(word & 0xfu | 0x4b000000u, word & 0xf0u | 0x49000000u,
                              word & 0xf00u | 0x47000000u, word & 0xf000u | 0x45000000u),
                        vec4(8388608.0, 524288.0, 32768.0, 2048.0), zero);
  v[1] = without_offset(uvec4(word & 0xf0000u | 0x43000000u, high & 0xfu | 0x4b000000u,
                              high & 0xf0u | 0x49000000u, high & 0xf00u | 0x47000000u),
                        vec4(128.0, 8388608.0, 524288.0, 32768.0), zero);
}
#else
const uint FOURS = 1;

void unpack_word(uint word, float zero, out vec4 v[FOURS]) {
#if SIGNED
  word ^= 0x80808080u;  // 128 more each
  const float more = 128.0;
#else
  const float more = 0.0;
#endif
  const uint high = word >> 16;
  v[0] = without_offset(uvec4(word & 0xffu | 0x4b000000u, word & 0xff00u | 0x47000000u,
                              high & 0xffu | 0x4b000000u, high & 0xff00u | 0x47000000u),
                        vec4(8388608.0, 32768.0, 8388608.0, 32768.0) + more, zero);
}
#endif
#endif

const uint WORD_ELEMENTS = FOURS * 4;

uint64_t quantised_at(uint offset_bytes, uint bytes) {
  const uint64_t at = uint64_t(q_ptr) + uint64_t(offset_bytes);
#if TV_CHECK
  return tv_check_ptr(at, bytes);
#else
  return at;
#endif
}

/// Two and four words from element k of row n on; they lie at a multiple of their bytes.
uvec2 two_words(uint n, uint k) {
  return tv_ref_u32x2(quantised_at(quantised_byte(n, k), 8u)).v[0];
}
uvec4 four_words(uint n, uint k) {
  return tv_ref_u32x4(quantised_at(quantised_byte(n, k), 16u)).v[0];
}
