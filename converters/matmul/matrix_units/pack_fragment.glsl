// How an operand of matrix units is packed (matmul_pack.comp, conv_matrix_pack.comp): a subgroup
// brings the 16x16 numbers of a fragment into the order in which it holds them, through a patch of
// shared memory, so that kernels load a fragment with one unit of 16 bytes an invocation. With
// another count of components an invocation than 8 a fragment is its 16x16 matrix, of the same
// size. SIDE_A: a fragment of a left operand, [row][k], else of a right one, [column][k].

shared uvec4 sh[8][PIECES][32];

#include "matrix.glsl"

#if SIDE_A
#define Packed FragA
#define PACKED_LAYOUT gl_CooperativeMatrixLayoutRowMajor
#else
#define Packed FragB
#define PACKED_LAYOUT gl_CooperativeMatrixLayoutColumnMajor
#endif

// Pieces of the 8 numbers v[8] into sh[patch][PIECES][lane].
#if FLOATS
#define STASH_PIECES(v, patch, lane)                                                              \
  Chunk c = Chunk(vec4(v[0], v[1], v[2], v[3]), vec4(v[4], v[5], v[6], v[7]));                    \
  FOR(p, PIECES) sh[patch][p][lane] = split_chunk(c, p);
#else
#define STASH_PIECES(v, patch, lane)                                                              \
  uvec4 c;                                                                                        \
  FOR(e, 4) c[e] = TO_16(v[2 * e]) | TO_16(v[2 * e + 1]) << 16;                                   \
  sh[patch][0][lane] = c;
#endif

// Stores fragment `tile` of those that begin at unit `first`, where `valid`: this invocation has
// v[8], numbers 8 (lane % 2) … of row lane / 2.
#define PACK_FRAGMENT(v, valid, first, tile, lane)                                                \
  STASH_PIECES(v, gl_SubgroupID, lane)                                                            \
  subgroupBarrier();                                                                              \
  FOR(p, PIECES) {                                                                                \
    Packed f;                                                                                     \
    coopMatLoad(f, sh[gl_SubgroupID][p], 0, 2, PACKED_LAYOUT);                                    \
    uvec4 r = sh[gl_SubgroupID][p][lane];                                                         \
    if (f.length() == 8) {                                                                        \
      FOR(e, 4) r[e] = packFloat2x16(f16vec2(f[2 * e], f[2 * e + 1]));                            \
    }                                                                                             \
    if (valid) tv_ref_u32x4(y_ptr).v[first + (tile * PIECES + p) * 32 + lane] = r;                \
  }
