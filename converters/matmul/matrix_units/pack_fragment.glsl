// How an operand of matrix units is packed (matmul_pack.comp, conv_matrix_pack.comp): a subgroup
// brings the 16x16 numbers of a fragment into the order in which it holds them, through a patch of
// shared memory, so that kernels load a fragment with one uvec4 an invocation. With
// another count of components an invocation than 8 a fragment is its 16x16 matrix, of the same
// size, and so it is where bytes are multiplied 16 steps of k at a time. Of bytes it has 16x32.
// SIDE_A: a fragment of a left operand, [row][k], else of a right one, [column][k].

shared uvec4 sh[8][PIECES][32];

#include "matrix.glsl"

#if SIDE_A
#define Packed FragA
#define PACKED_LAYOUT gl_CooperativeMatrixLayoutRowMajor
#else
#define Packed FragB
#define PACKED_LAYOUT gl_CooperativeMatrixLayoutColumnMajor
#endif

// Numbers of an invocation.
#if BYTES
#define NUMBERS 16
#else
#define NUMBERS 8
#endif
// Pieces of the numbers v[NUMBERS] into sh[patch][PIECES][lane].
#if BYTES
#define STASH_PIECES(v, patch, lane)                                                              \
  uvec4 c = uvec4(0u);                                                                            \
  FOR(e, 16) c[e / 4] |= (uint(int(v[e])) & 0xffu) << (8 * (e % 4));                              \
  sh[patch][0][lane] = c;
#elif FLOATS
#define STASH_PIECES(v, patch, lane)                                                              \
  Chunk c = Chunk(vec4(v[0], v[1], v[2], v[3]), vec4(v[4], v[5], v[6], v[7]));                    \
  FOR(p, PIECES) sh[patch][p][lane] = split_chunk(c, p);
#else
#define STASH_PIECES(v, patch, lane)                                                              \
  uvec4 c;                                                                                        \
  FOR(e, 4) c[e] = TO_16(v[2 * e]) | TO_16(v[2 * e + 1]) << 16;                                   \
  sh[patch][0][lane] = c;
#endif

// Stores fragment `tile` of those that begin at uvec4 `first`, where `valid`: this invocation has
// v[NUMBERS], numbers NUMBERS (lane % 2) … of row lane / 2.
#if BYTES == 16
#define REORDER(r, patch, p)
#elif BYTES
#define REORDER(r, patch, p)                                                                      \
  Packed f;                                                                                       \
  coopMatLoad(f, sh[patch][p], 0, 2, PACKED_LAYOUT);                                              \
  if (f.length() == 16) {                                                                         \
    FOR(e, 4) r[e] = uint(pack32(i8vec4(f[4 * e], f[4 * e + 1], f[4 * e + 2], f[4 * e + 3])));    \
  }
#else
#define REORDER(r, patch, p)                                                                      \
  Packed f;                                                                                       \
  coopMatLoad(f, sh[patch][p], 0, 2, PACKED_LAYOUT);                                              \
  if (f.length() == 8) {                                                                          \
    FOR(e, 4) r[e] = packFloat2x16(f16vec2(f[2 * e], f[2 * e + 1]));                              \
  }
#endif
#define PACK_FRAGMENT(v, valid, first, tile, lane)                                                \
  STASH_PIECES(v, gl_SubgroupID, lane)                                                            \
  subgroupBarrier();                                                                              \
  FOR(p, PIECES) {                                                                                \
    uvec4 r = sh[gl_SubgroupID][p][lane];                                                         \
    REORDER(r, gl_SubgroupID, p)                                                                  \
    if (valid) tv_ref_u32x4(y_ptr).v[first + (tile * PIECES + p) * 32 + lane] = r;                \
  }
