// y[m][n] = sum over k of f(a[m][k]) * weight[n][k] for a row of a at a time, on matrix units, of a matrix
// of 4 bits whose words are what invocations hold of its fragments (matmul_quantised_deal.comp): they go
// straight from memory into registers.
//
// An element q, 0 … 15, becomes the 16-bit float 16 + q by one mask: the four leading bits of its mantissa
// are those of q. What is too much, (16 + zero point) * the sum of a, is taken from the sums of 32 steps of
// k, in float32, before they are multiplied by their group's scale; groups have a multiple of 32 steps, and
// all products are exact.
// NORM: f is the program `normed` of a[m][k] / sqrt(mean over k of a[m][k]² + eps), else a itself. GATED:
// weight has 2 * n_count rows, and y is the program `gated` of the sums of rows n and n + n_count.
// A subgroup has BLOCKS times 16 rows of weight, where GATED one of each half. The WK subgroups of a
// workgroup share the steps of k, 64 at a time, and their sums are added in order; RING such steps are on
// their way. A workgroup computes tile after tile, `tiles_apart` apart, of `tiles`; the row of a is kept in
// shared memory, in 16 bits. HALF: those are float16, else bfloat16.
// Grid: (tiles_apart, m_count, 1); local 32 * WK.

#include "matrix.glsl"
#include "quantised_weight.glsl"

#if NORM
NORM_FUNCTION
#endif
#if GATED
GATE_FUNCTION
#define OUTPUTS 16u
#define WEIGHT_ROWS (2u * n_count)
#else
#define OUTPUTS (16u * BLOCKS)
#define WEIGHT_ROWS n_count
#endif

const uint STEPS_K = K_COUNT / 64u, STEPS = STEPS_K / WK;  // of a row, and of a subgroup
// Columns of a fragment of a begin 16 elements apart: the first is what is asked for.
shared uvec4 row[K_COUNT < 512u ? 96u : K_COUNT / 8u + 32u];
shared float sums_of_32[K_COUNT / 32u];
shared float sums[2][WK][BLOCKS * 16u];  // of this tile and the one before
#if NORM
shared float squares_of[WK];
#endif

/// The words of this invocation of step `step` of block `block`: 32 steps of k of rows lane / 4 and
/// lane / 4 + 8, and the next 32.
uvec4 dealt(uint block, uint step, uint lane) {
  const uint i = (block * STEPS_K + step) * 32u + lane;
#if TV_CHECK
  return tv_ref_u32x4(tv_check_ptr(uint64_t(q_ptr) + uint64_t(i) * 16u, 16u)).v[0];
#else
  return tv_units(q_ptr)[i].v;
#endif
}

/// Block b of a subgroup's in a tile.
uint block_of(uint tile, uint b) {
#if GATED
  return tile + b * (n_count / 16u);
#else
  return min(tile * BLOCKS + b, (n_count - 1u) / 16u);
#endif
}

/// Scales, or zero points, of both rows in the first and the second 32 steps of k.
#define OF_GROUPS(of, block, step) vec4(of(ROW_OF(block, 0u), GROUP_OF(step, 0u)),              \
                                        of(ROW_OF(block, 8u), GROUP_OF(step, 0u)),              \
                                        of(ROW_OF(block, 0u), GROUP_OF(step, 32u)),             \
                                        of(ROW_OF(block, 8u), GROUP_OF(step, 32u)))
#define ROW_OF(block, more) min((block) * 16u + lane / 4u + more, WEIGHT_ROWS - 1u)
#if WHOLE_ROWS
#define GROUP_OF(step, more) 0u
#else
#define GROUP_OF(step, more) (((step) * 64u + more) / group_steps)
#endif

/// 16 + q of the pairs of elements of a word.
uvec4 numbers_of(uint word) {
#if HALF
  return uvec4(word << 6, word << 2, word >> 2, word >> 6) & 0x03c003c0u | 0x4c004c00u;
#else
  return uvec4(word << 3, word >> 1, word >> 5, word >> 9) & 0x00780078u | 0x41804180u;
#endif
}

vec2 floats_of(uint pair) {
#if HALF
  return unpackHalf2x16(pair);
#else
  return vec2(uintBitsToFloat(pair << 16), uintBitsToFloat(pair & 0xffff0000u));
#endif
}

/// The sum of a word's elements, 16 more each, times a: where fragments lie otherwise.
float sum_of_word(uint word, uint k, uint lane) {
  float sum = 0.0;
  FOR(j, 4) {
    const uint at = k + 8u * j + lane % 4u * 2u;
    const vec2 a = floats_of(row[at / 8u][at % 8u / 2u]);
    const uint pair = word >> (4u * j);
    sum = fma(float((pair & 15u) + 16u), a.x, fma(float((pair >> 16 & 15u) + 16u), a.y, sum));
  }
  sum += subgroupShuffleXor(sum, 1u);
  return sum + subgroupShuffleXor(sum, 2u);
}

// what(b, x) for each block of a subgroup, what(r, x) for each slot of the ring: written out, as compilers
// keep a loop whose body is long, and what it indexes in memory (few_rows.glsl).
#if BLOCKS == 1
#define EACH_BLOCK(what, x) what(0, x)
#else
#define EACH_BLOCK(what, x) what(0, x) what(1, x)
#endif
#if RING == 1
#define EACH_SLOT(what, x) what(0, x)
#elif RING == 2
#define EACH_SLOT(what, x) what(0, x) what(1, x)
#else
#define EACH_SLOT(what, x) what(0, x) what(1, x) what(2, x) what(3, x)
#endif

/// The component of a fragment of sums that is 8 rows below component 0.
#define SECOND(f) (fourth ? (f)[4] : (f)[2])

// What is added for 32 steps of k from k0 on, half `part` of a slot of the ring.
#define ADD_BLOCK(b, part, sum_) {                                                              \
    const vec2 more = vec2(zero[b][2 * part], zero[b][2 * part + 1]) + 16.0;                    \
    const vec2 s = vec2(scale[b][2 * part], scale[b][2 * part + 1]);                            \
    acc[b] = fma(s, fma(-more, vec2(all), sum_), acc[b]); }
#define MULTIPLY_BLOCK(b, part) {                                                               \
    const uvec4 upper = numbers_of(w[b][2 * part]), lower = numbers_of(w[b][2 * part + 1]);     \
    FragA fw;                                                                                   \
    Sums products = NO_SUMS;                                                                    \
    SET_COMPONENTS(fw, uvec4(upper.xy, lower.xy))                                               \
    products = coopMatMulAdd(fw, fa[0], products);                                              \
    SET_COMPONENTS(fw, uvec4(upper.zw, lower.zw))                                               \
    products = coopMatMulAdd(fw, fa[1], products);                                              \
    ADD_BLOCK(b, part, vec2(products[0], SECOND(products))) }
#define MULTIPLY(part, k0) {                                                                    \
    FragB fa[2];                                                                                \
    coopMatLoad(fa[0], row, (k0) / 8u, 2, gl_CooperativeMatrixLayoutColumnMajor);               \
    coopMatLoad(fa[1], row, (k0) / 8u + 2u, 2, gl_CooperativeMatrixLayoutColumnMajor);          \
    const float all = sums_of_32[(k0) / 32u];                                                   \
    EACH_BLOCK(MULTIPLY_BLOCK, part) }
#define SUM_BLOCK(b, x) {                                                                       \
    FOR(part, 2) {                                                                              \
      const uint k0 = x * 64u + 32u * part;                                                     \
      const float all = sums_of_32[k0 / 32u];                                                   \
      ADD_BLOCK(b, part, vec2(sum_of_word(w[b][2u * part], k0, lane),                           \
                              sum_of_word(w[b][2u * part + 1u], k0, lane)))                     \
    } }

#define LOAD_BLOCK(b, r) {                                                                      \
    const uint block = block_of(tile_, b);                                                      \
    words[r][b] = dealt(block, step_, lane);                                                    \
    scales[r][b] = OF_GROUPS(quantised_scale, block, step_);                                    \
    zeros[r][b] = OF_GROUPS(quantised_zero, block, step_); }
#define LOAD(r, tile, step) { const uint tile_ = tile, step_ = step; EACH_BLOCK(LOAD_BLOCK, r) }
#define START_SLOT(r, _) LOAD(r, gl_WorkGroupID.x, r * WK + part)
// Takes what is in slot r, asks for what comes into it, and adds what was taken.
#define TAKE_SLOT(r)                                                                            \
    const uint step = (s + r) * WK + part;                                                      \
    const uvec4 w[BLOCKS] = words[r];                                                           \
    const vec4 scale[BLOCKS] = scales[r], zero[BLOCKS] = zeros[r];                              \
    LOAD(r, next_tile, (next + r) * WK + part)
#define MULTIPLY_SLOT(r, _) { TAKE_SLOT(r) MULTIPLY(0, step * 64u) MULTIPLY(1, step * 64u + 32u) }
#define SUM_SLOT(r, _) { TAKE_SLOT(r) EACH_BLOCK(SUM_BLOCK, step) }
#define EACH_STEP(what)                                                                         \
    for (uint s = 0u; s < STEPS; s += RING) {                                                   \
      const bool last = s + RING >= STEPS;                                                      \
      const uint next = last ? 0u : s + RING;                                                   \
      const uint next_tile = last ? min(tile + tiles_apart, tiles - 1u) : tile;                 \
      EACH_SLOT(what, 0)                                                                        \
    }

#if NORM
#define EIGHT(v, k_) { NORM_WEIGHTS(k_) const vec4 x = v * inverse; NORMED(x, v) }
#endif

void main() {
  const uint lane = gl_SubgroupInvocationID, part = gl_SubgroupID, thread = part * 32u + lane;
  const uint from = gl_WorkGroupID.y * a_m;
  uvec4 words[RING][BLOCKS];
  vec4 scales[RING][BLOCKS], zeros[RING][BLOCKS];
  EACH_SLOT(START_SLOT, 0)

  // Numbers of elements in what row and column of a matrix, as its 16 bits and as floats.
  const uint kNumbers = 0x40004000u;  // 2 and a little more, as float16 and as bfloat16
  for (uint i = thread; i < 32u; i += LOCAL_X) {
    FOR(e, 4) row[i][e] = kNumbers + (i * 8u + 2u * e) + ((i * 8u + 2u * e + 1u) << 16);
  }
  for (uint i = thread; i < 64u; i += LOCAL_X) {
    FOR(e, 4) row[32u + i][e] = floatBitsToUint(float(i * 4u + e));
  }
  barrier();
  bool fourth = false, known = TV_CHECK == 0 || gl_WorkGroupID.x % 2u == 0u;
  {
    FragA f;
    Sums g;
    coopMatLoad(f, row, 0u, 2, gl_CooperativeMatrixLayoutRowMajor);
    coopMatLoad(g, row, 32u, 4, gl_CooperativeMatrixLayoutRowMajor);
    known = known && f.length() == 8 && g.length() == 8;
    if (f.length() == 8 && g.length() == 8) {
      FOR(e, 4) {
        const uint number = (lane / 4u + e / 2u * 8u) * 16u + lane % 4u * 2u + e % 2u * 8u;
        const uint pair = packFloat2x16(f16vec2(f[2 * e], f[2 * e + 1]));
        known = known && pair == kNumbers + number + ((number + 1u) << 16);
      }
      const float first = float(lane / 4u * 16u + lane % 4u * 2u);
      fourth = subgroupAll(g[4] == first + 128.0);
      known = known && g[0] == first && SECOND(g) == first + 128.0;
    }
    known = subgroupAll(known);
  }
  barrier();

#if NORM
  float squares = 0.0;
  for (uint i = thread; i < K_COUNT / 4u; i += LOCAL_X) {
    const vec4 v = vec4(a_vec4(from + 4u * i));
    squares += dot(v, v);
  }
  squares = subgroupAdd(squares);
  if (lane == 0u) squares_of[part] = squares;
  barrier();
  squares = squares_of[0];
  FOR(i, WK - 1) squares += squares_of[i + 1u];
  const float inverse = tv_rsqrt(tv_div(squares, float(k_count)) + eps);
#endif
  for (uint i = thread; i < K_COUNT / 8u; i += LOCAL_X) {
    vec4 v = vec4(a_vec4(from + 8u * i)), w = vec4(a_vec4(from + 8u * i + 4u));
#if NORM
    EIGHT(v, 8u * i)
    EIGHT(w, 8u * i + 4u)
#endif
    const uvec4 eight = uvec4(TO_16X4(v), TO_16X4(w));
    row[i] = eight;
    float sum = 0.0;
    FOR(e, 4) { const vec2 pair = floats_of(eight[e]); sum += pair.x + pair.y; }
    sum += subgroupShuffleXor(sum, 1u);
    sum += subgroupShuffleXor(sum, 2u);
    if (i % 4u == 0u) sums_of_32[i / 4u] = sum;
  }
  for (uint i = thread; i < 32u; i += LOCAL_X) row[K_COUNT / 8u + i] = uvec4(0u);
  barrier();

  uint turn = 0u;
  for (uint tile = gl_WorkGroupID.x; tile < tiles; tile += tiles_apart) {
    vec2 acc[BLOCKS];
    FOR(b, BLOCKS) acc[b] = vec2(0.0);
    if (known) {
      EACH_STEP(MULTIPLY_SLOT)
    } else {
      EACH_STEP(SUM_SLOT)
    }
    if (lane % 4u == 0u) {
      FOR(b, BLOCKS) FOR(h, 2) sums[turn][part][b * 16u + lane / 4u + 8u * h] = acc[b][h];
    }
    barrier();
    for (uint o = thread; o < OUTPUTS; o += LOCAL_X) {
      const uint n = tile * OUTPUTS + o;
      float sum = sums[turn][0][o];
      FOR(p, WK - 1) sum += sums[turn][p + 1u][o];
#if GATED
      float other = sums[turn][0][16u + o];
      FOR(p, WK - 1) other += sums[turn][p + 1u][16u + o];
      float y;
      GATE(sum, other, y)
#else
      const float y = sum;
#endif
      if (n < n_count) y_store(gl_WorkGroupID.y * n_count + n, y_T(y));
    }
    turn ^= 1u;
  }
}
