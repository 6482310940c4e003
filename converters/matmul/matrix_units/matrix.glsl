// What the kernels of products on matrix units share: 16x16x16 cooperative matrices of float16_t
// (bfloat16 where the step says so) with sums in float32, 32 invocations a subgroup.
//
// Operands in 8 elements at a time ("chunks"): 16 bytes of 16-bit floats, 32 of fp32. fp32 is split
// into PIECES 16-bit floats that add up to it; the products of pieces whose orders add up to less
// than PIECES make the product. bfloat16 pieces have fp32's exponents; an infinity, a NaN or a
// number near fp32's largest has no such pieces: what is not finite in the end is computed again
// from the operands themselves. SCALED: float16 pieces of the operands over powers of two
// (matmul_scale.comp), one where TF32's bits will do; outputs that may lose too much by that are
// left to another kernel (fallback.glsl). DYNAMIC_SCALE: float16 pieces of the operands times
// powers of two that the kernel finds on its way (conv_matrix.comp), each further piece times 2^11
// once more, so that pieces of all numbers from 2^-29 of the largest on have 11 bits (Ootomo and
// Yokota 2022, section 3). BYTES: operands are signed bytes, two of which stand for an element
// here, and sums are int; a matrix has BYTES of them along k, 32 or 16.

#ifndef BYTES
#define BYTES 0
#endif
#ifndef QUANTISED
#define QUANTISED 0
#endif
#ifndef DYNAMIC_SCALE
#define DYNAMIC_SCALE 0
#endif
#ifndef SCALED
#define SCALED 0
#endif
// Operands are fp32.
#define FLOATS (PIECES > 1 || DYNAMIC_SCALE == 1 || SCALED == 1)

#define FOR(i, n) [[unroll]] for (uint i = 0u; i < uint(n); i++)
#define COUNT_M (WM / 16)
#define COUNT_N (WN / 16)
#define EACH_TILE FOR(i, COUNT_M) FOR(j, COUNT_N)
#if BYTES
#define Sums coopmat<int, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator>
#define FragA coopmat<int8_t, gl_ScopeSubgroup, 16, BYTES, gl_MatrixUseA>
#define FragB coopmat<int8_t, gl_ScopeSubgroup, BYTES, 16, gl_MatrixUseB>
#define NO_SUMS Sums(0)
#define Four ivec4
#define four_of ivec4
#define One int
#define one_of int
#else
#define Sums coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator>
#define FragA coopmat<float16_t, gl_ScopeSubgroup, 16, 16, gl_MatrixUseA>
#define FragB coopmat<float16_t, gl_ScopeSubgroup, 16, 16, gl_MatrixUseB>
#define NO_SUMS Sums(0.0)
#define Four vec4
#define four_of uintBitsToFloat
#define One float
#define one_of uintBitsToFloat
#endif

layout(buffer_reference, scalar, buffer_reference_align = 16) buffer tv_uvec4s { uvec4 v; };

#if FLOATS
struct Chunk { vec4 lo, hi; };
layout(buffer_reference, scalar, buffer_reference_align = 16) buffer tv_chunks {
  vec4 lo;
  vec4 hi;
};
#define LOAD_CHUNK(p) Chunk((p).lo, (p).hi)
#define NO_CHUNK Chunk(vec4(0.0), vec4(0.0))

// x rounded to its leading bits, 24 less those that `split` = 2^n + 1 names (Veltkamp 1968;
// Handbook of Floating-Point Arithmetic, algorithm 4.9): a few operations of the fp32 units.
// Conversions there and back will not do, as drivers take them for the number itself. NaN where x *
// split overflows.
float leading(float x, float split) {
  precise const float t = x * split;
  precise const float d = t - x;
  precise const float r = t - d;
  return r;
}

// split_off(x, y, last): the leading 16-bit piece of x and y in one word; x and y become what
// remains. The last piece is not rounded where it holds all that remains, or where its conversion
// rounds it.
#if DYNAMIC_SCALE
#define PIECE_STEP 2048.0
#ifdef LEAST_PIECES
// x to 11 bits, to the nearest, and to a multiple of 2^-24, float16's least number, so that what
// remains is what float16 leaves: adding a number 2^13 times as large keeps these bits.
float leading_16(float x) {
  const uint exponent = max(floatBitsToUint(x) & 0x7f800000u, 113u << 23);
  const float large = uintBitsToFloat((exponent + (13u << 23)) | 0x400000u);
  precise const float t = x + large;
  precise const float r = t - large;
  return r;
}
#else
#define leading_16(x) leading(x, 8193.0)
#endif
// The leading 11 bits as two float16; what remains becomes 2^11 times as large.
uint split_off(inout float x, inout float y, bool last) {
  if (last && PIECES > 1) return packHalf2x16(vec2(x, y));
  const vec2 r = vec2(leading_16(x), leading_16(y));
  x = (x - r.x) * PIECE_STEP;
  y = (y - r.y) * PIECE_STEP;
  return packHalf2x16(r);
}
#elif SCALED
// The leading 11 bits as two float16.
uint split_off(inout float x, inout float y, bool last) {
  if (last && PIECES > 1) return packHalf2x16(vec2(x, y));
  const vec2 r = vec2(leading(x, 8193.0), leading(y, 8193.0));
  x -= r.x;
  y -= r.y;
  return packHalf2x16(r);
}
// 1 / a power of two; 0 for 0.
float inverse_power(float y) {
  return y == 0.0 ? 0.0 : uintBitsToFloat((254u << 23) - floatBitsToUint(y));
}
#else
// To the nearest: what remains then has either sign, and what the units cut from sums does not make
// every result smaller. Infinities, NaN and numbers above 5e33 have NaN as pieces. Three pieces
// hold all 24 bits.
uint split_off(inout float x, inout float y, bool last) {
  vec2 r = vec2(x, y);
  if (!last || PIECES < 3) {
    r = vec2(leading(x, 65537.0), leading(y, 65537.0));
    x -= r.x;
    y -= r.y;
  }
  return floatBitsToUint(r.x) >> 16 | (floatBitsToUint(r.y) & 0xffff0000u);
}
#endif
// Piece p of a chunk that has lost those before.
uvec4 split_chunk(inout Chunk c, uint p) {
  const bool last = p + 1u == PIECES;
  uvec4 r;
  r.x = split_off(c.lo.x, c.lo.y, last);
  r.y = split_off(c.lo.z, c.lo.w, last);
  r.z = split_off(c.hi.x, c.hi.y, last);
  r.w = split_off(c.hi.z, c.hi.w, last);
  return r;
}
#else
#define Chunk uvec4
#define tv_chunks tv_uvec4s
#define LOAD_CHUNK(p) (p).v
#define NO_CHUNK uvec4(0u)
#define split_chunk(c, p) (c)
#endif

// Which of the 32 elements of k of two steps is number kk of step `step` (direct_load.glsl).
uint in_pair(uint step, uint kk) { return kk % 8u / 2u * 8u + step * 4u + kk / 8u * 2u + kk % 2u; }

// The eight components of a fragment that an invocation holds, or the sixteen bytes.
#if BYTES
#define COMPONENTS 16
#define SET_COMPONENTS(f, words)                                     \
  FOR(e_, 4) {                                                       \
    const i8vec4 b_ = unpack8(int32_t((words)[e_]));                 \
    FOR(c_, 4) f[4 * e_ + c_] = b_[c_];                              \
  }
#else
#define COMPONENTS 8
#define SET_COMPONENTS(f, words)                                     \
  FOR(e_, 4) {                                                       \
    const f16vec2 h_ = unpackFloat2x16((words)[e_]);                 \
    f[2 * e_] = h_.x;                                                \
    f[2 * e_ + 1] = h_.y;                                            \
  }
#endif

// A fragment of a packed operand (matmul_pack.comp): `words` as this invocation holds them, or, on
// devices with another count of components an invocation, the 16x16 matrix at `at`.
#define FRAGMENT(f, words, at, layout_)                              \
  if (BYTES != 16 && f.length() == COMPONENTS) {                     \
    SET_COMPONENTS(f, words)                                         \
  } else {                                                           \
    coopMatLoad(f, tv_ref_u32x4(at).v, 0, 2, layout_);               \
  }

#ifdef PATCH
#include "epilogue.glsl"
#if SCALED
#include "fallback.glsl"
#endif

// Sums of a subgroup, 16 rows at a time, go through a patch of shared memory to the fused epilogue.
#define PATCH_LD (WN / 4 + 1)

#if SPLIT > 1
// Workgroups share the steps of k: tv_share is the number of this one's share, whose sums make one
// of SPLIT results (matmul_split_k.comp).
uint tv_share;
#define FIRST_K min(k_count, tv_share * K_OF_SHARE)
#define END_K min(k_count, (tv_share + 1u) * K_OF_SHARE)
#define RESULT_MATRIX(z) (tv_share * matrices + (z))
#else
#define FIRST_K 0u
#define END_K k_count
#define RESULT_MATRIX(z) (z)
#endif

#if PIECES > 1 && !SCALED
#if QUANTISED
#define FROM_B(z, n) 0u
#define B_ELEMENT(from, n, k) quantised_weight(n, k)
#else
#define FROM_B(z, n) BATCH_OFFSET(z, bz) + n * b_n
#define B_ELEMENT(from, n, k) b_raw(from + k * b_k)
#endif
float exactly(uint z, uint m, uint n) {
  const uint from_a = BATCH_OFFSET(z, az) + m * a_m, from_b = FROM_B(z, n);
  float sum = 0.0;
  for (uint k = FIRST_K; k < END_K; k++)
    sum = fma(a_raw(from_a + k * a_k), B_ELEMENT(from_b, n, k), sum);
  return sum;
}
#endif

void store_four(uint z, uint m, uint n, Four v) {
  if (m >= m_count || n >= n_count) return;
#if QUANTISED
#if SCALED_SUMS
  FOR(e, 4) v[e] *= quantised_scale(min(n + e, n_count - 1u), 0u);
#endif
#endif
#if BYTES
  FOR(e, 4) v[e] = shifted_sum(z, m, min(n + e, n_count - 1u), v[e]);
#elif SCALED
  if (needs_fallback(z, m, n)) return;
  v = v * scale_a_raw(z * scale_a_z + m / 16u) * scale_b_raw(z * scale_b_z + n / 16u);
#elif PIECES > 1
  if (any(isnan(v)) || any(isinf(v))) {
    for (uint e = 0u; e < 4u; e++) {
      if (n + e < n_count) v[e] = exactly(z, m, n + e);
    }
  }
#endif
  const uint i = (RESULT_MATRIX(z) * m_count + m) * n_count + n;
#if N4
  y_store4(i, v);
#else
  FOR(e, 4) { if (n + e < n_count) y_store(i + e, v[e]); }
#endif
}

void store_patch(uint z, uint m0, uint n0, uint corner) {
  EACH_STORE(r, WN / 8) {
    const uint c = gl_SubgroupInvocationID + r * 32u;
    const uint row = c / (WN / 4), col = c % (WN / 4);
    store_four(z, m0 + row, n0 + col * 4u, four_of(sh[corner + row * PATCH_LD + col]));
  }
}

// Where WK subgroups have sums of one tile: all invocations add them, in order, and write, STRIP
// rows of fragments of each subgroup at a time.
#define SHARES_LD (BN / 4 + 1)
#define STRIP_ROWS (STRIP * 16)
#define SHARE_ROWS (BM / WM * STRIP_ROWS)
void store_split_k(uint z, uint m0, uint n0) {
  for (uint c = gl_LocalInvocationID.x; c < SHARE_ROWS * BN / 4; c += LOCAL_X) {
    const uint row = c / (BN / 4), col = c % (BN / 4);
    Four v = four_of(sh[row * SHARES_LD + col]);
    FOR(q, WK - 1) v += four_of(sh[((q + 1u) * SHARE_ROWS + row) * SHARES_LD + col]);
    store_four(z, m0 + row / STRIP_ROWS * WM + row % STRIP_ROWS, n0 + col * 4u, v);
  }
}

// Writes the subgroup's tile acc[COUNT_M][COUNT_N] at (m0, n0) of matrix z.
#define STORE_SUMS(acc, z, m0, n0, corner)                                                         \
  EACH_STORE(i, COUNT_M) {                                                                         \
    PICK(q, i, COUNT_M, FOR(j, COUNT_N) coopMatStore(                                              \
        acc[q][j], sh, (corner) + j * 4u, PATCH_LD, gl_CooperativeMatrixLayoutRowMajor))           \
    subgroupBarrier();                                                                             \
    store_patch(z, (m0) + i * 16u, n0, corner);                                                    \
    subgroupBarrier();                                                                             \
  }

// Writes the workgroup's tile at (m0, n0) of matrix z from the sums `acc` of subgroup (wm, wn, wk).
#if WK > 1
#define STORE_TILE(acc, z, m0, n0, wm, wn, wk)                                                     \
  EACH_STORE(t, COUNT_M / STRIP) {                                                                 \
    barrier();                                                                                     \
    PICK(q, t, COUNT_M / STRIP, FOR(i, STRIP) FOR(j, COUNT_N) coopMatStore(                        \
        acc[q * STRIP + i][j], sh,                                                                 \
        (wk * SHARE_ROWS + wm * STRIP_ROWS + i * 16u) * SHARES_LD + wn * (WN / 4) + j * 4u,        \
        SHARES_LD, gl_CooperativeMatrixLayoutRowMajor))                                            \
    barrier();                                                                                     \
    store_split_k(z, (m0) + t * STRIP_ROWS, n0);                                                   \
  }
#else
#define STORE_TILE(acc, z, m0, n0, wm, wn, wk)                                                     \
  barrier();                                                                                       \
  STORE_SUMS(acc, z, (m0) + wm * WM, (n0) + wn * WN, gl_SubgroupID * (16 * PATCH_LD))
#endif
#endif
