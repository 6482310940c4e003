// Convolutions of bytes on matrix units (conv_matrix.comp, BYTES): both operands are multiplied as
// signed bytes, X_OFFSET and W_OFFSET less (X_FLIP does it for a word of x). Where x is padding it
// is its zero point; what is beyond k is 0 in both. What is then subtracted from an operand's bytes
// (X_SHIFTED, W_SHIFTED: whether there may be anything) is taken from the sums: times w_sums, those
// of the weight's rows, and times the sums of what each output pixel reads, which are found here.
// W_ANY: w_any says whether anything is subtracted from the weight, which nobody knows before its
// zero points are there.

#include "byte_sums.glsl"
#include "conv_integer_shift.glsl"

int x_shift;   // of every element of x; read once, as it would be again behind each store
uint padding;  // x_shift as each byte of a word

/// What was gathered, as signed bytes.
Chunk chunk_of(Gathered r) {
#if X_LAST
  const Chunk c = r.chunk ^ X_FLIP;
  return r.mask != 0u ? c : r.exists != 0u ? uvec4(padding) : NO_CHUNK;
#else
  Chunk c = NO_CHUNK;
  FOR(e, 16) {
    uint v = (r.bytes[e] ^ X_FLIP) & 0xffu;
    v = (r.mask >> e & 1u) != 0u ? v : (r.exists >> e & 1u) != 0u ? padding & 0xffu : 0u;
    c[e / 4] |= v << (8 * (e % 4));
  }
  return c;
#endif
}

#if W_SHIFTED
#if X_LAST
const uint SUMMING = CHUNKS;
#else
const uint SUMMING = EACH;
#endif
const uint PARTS = WK * SUMMING;
shared int x_parts[BN * PARTS];
int x_sums[PX];
#if W_ANY
bool w_is_shifted;
#else
const bool w_is_shifted = true;
#endif
/// What the bytes of a column of the tile add up to.
int x_sum_of(uint col) { return w_is_shifted ? x_parts[col * PARTS] : 0; }
#endif

void start_x_sums() {
  x_shift = x_shift_of_all();
  padding = (uint(x_shift) & 0xffu) * 0x01010101u;
#if W_SHIFTED
#if W_ANY
  w_is_shifted = w_any_raw(0u) != 0;
#endif
  FOR(i, PX) x_sums[i] = 0;
#endif
}

/// Adds a chunk of this invocation's column i.
void add_x(uint i, Chunk c) {
#if W_SHIFTED
  if (w_is_shifted) x_sums[i] += byte_sum(c);
#endif
}
