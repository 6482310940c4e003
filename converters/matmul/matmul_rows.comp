// y[m][n] = sum over k of f(a[m][k]) * weight[n][k], for few rows of a: every weight is read once, 16
// or 32 elements an invocation and step (rows_of_weights.glsl).
//
// NORM: f is the program `normed` of a[m][k] / sqrt(mean over k of a[m][k]² + eps), else a itself.
// GATED: weight has 2 * n_count rows, and y is the program `gated` of the sums of rows n and
// n + n_count.
// A subgroup of LANES_K invocations has COLS rows of weight and ROWS rows of a; its invocations share k, and so
// do WK subgroups, whose sums are added in order. A workgroup computes a tile of UNITS * OUTPUTS outputs, and
// further ones, `tiles_apart` tiles apart. The weights of a step are asked for a step ahead, the first ones before
// the norm, those of a next tile in the last step of one. KEPT: f(a) is computed once for a workgroup, in shared
// memory, which K_COUNT elements of each row take, in 16 bits where KEPT_HALVES names a's type (1: float16, 2:
// bfloat16); else by each subgroup.
// Grid: (tiles_apart, ceil(m_count / ROWS), 1); local SUBGROUPS * LANES_K.

#include "few_rows.glsl"
#include "rows_of_a.glsl"
#include "rows_of_weights.glsl"

#if NORM
NORM_FUNCTION
#endif
#if GATED
GATE_FUNCTION
#define OUTPUTS (COLS / 2u)
#else
#define OUTPUTS COLS
#endif

shared float sums[2][SUBGROUPS][TILE];  // of this tile and the one before

/// The row of weight that column c of a subgroup multiplies.
uint weight_row(uint n0, uint c) {
#if GATED
  return min(n0 + c / 2u, n_count - 1u) + (c % 2u) * n_count;
#else
  return min(n0 + c, n_count - 1u);
#endif
}

/// Result e of the subgroups that share the steps of k of a unit.
float sum_of(uint turn, uint unit, uint e) {
  float sum = sums[turn][unit * WK][e];
  FOR(s, WK - 1) sum += sums[turn][unit * WK + s + 1u][e];
  return sum;
}

// What is done for each column c of a subgroup, and for each pass of 16 steps of k: written out, as compilers
// may keep a loop around so much.
#if DENSE
#define LOAD_COLUMN(c, k_) ahead[c] = words_of(weight_row(n0, c), k_);
#define TAKE_COLUMN(c, x) words[c] = ahead[c];
#define WEIGHTS(c, pass, w) unpack_16(words_of_pass(words[c], pass), 0.0, w);
#define SCALE(c) 1.0
#else
#define LOAD_COLUMN(c, k_) {                                                                    \
    const uint n = weight_row(n0, c), group = (k_) / group_steps;                               \
    ahead[c] = words_of(n, k_);                                                                 \
    zero_ahead[c] = quantised_zero(n, group);                                                   \
    scale_ahead[c] = quantised_scale(n, group); }
#define TAKE_COLUMN(c, x) {                                                                     \
    words[c] = ahead[c];                                                                        \
    zero[c] = zero_ahead[c];                                                                    \
    scale[c] = scale_ahead[c]; }
#define WEIGHTS(c, pass, w) unpack_16(words_of_pass(words[c], pass), zero[c], w);
#define SCALE(c) scale[c]
#endif
#define ADD_COLUMN(c, pass) {                                                                   \
    vec4 w[4];                                                                                  \
    WEIGHTS(c, pass, w)                                                                         \
    EACH_ROW(ADD_RESULT, c) }
#define ADD_RESULT(r, c) acc[r][c] = fma(                                                       \
    dot(a[r][0], w[0]) + dot(a[r][1], w[1]) + dot(a[r][2], w[2]) + dot(a[r][3], w[3]), SCALE(c), acc[r][c]);
#define KEEP(c, r) {                                                                            \
    const float all = subgroupAdd(acc[r][c]);                                                   \
    if (lane == 0u) sums[turn][gl_SubgroupID][(r) * COLS + c] = all; }
#define START(c, r) acc[r][c] = 0.0;
#if !NORM
#define NORM_WEIGHTS(k_)
#define NORM_OF(r, v)
#else
#define NORM_OF(r, v) { const vec4 x = v * inverse[r]; NORMED(x, v) }
#define FIND_INVERSE(r, x) {                                                                    \
    float squares = 0.0;                                                                        \
    for (uint k = lane * 4u; k < k_count; k += LANES_K * 4u) {                                  \
      const vec4 v = a_four(min(m0 + r, m_count - 1u), k);                                      \
      squares += dot(v, v);                                                                     \
    }                                                                                           \
    inverse[r] = tv_rsqrt(tv_div(subgroupAdd(squares), float(k_count)) + eps); }
#endif
#define PASS(pass) {                                                                            \
    const uint k = first + 16u * pass;                                                          \
    vec4 a[ROWS][4];                                                                            \
    LOAD_FOUR(0)                                                                                \
    LOAD_FOUR(1)                                                                                \
    LOAD_FOUR(2)                                                                                \
    LOAD_FOUR(3)                                                                                \
    EACH_COLUMN(ADD_COLUMN, pass) }
#if KEPT
// The vector of four that pass and i name lies beside those of the other invocations.
const uint FOURS_OF_RUN = 4u * PASSES, ROUND = FOURS_OF_RUN * LANES_K;  // vectors, of one and of all invocations
const uint ROUNDS = (K_COUNT / 4u + ROUND - 1u) / ROUND;
#if KEPT_HALVES == 1
#define Kept uvec2
#define KEPT_AS tv_to_f16x4
#define KEPT_IS tv_f16x4
#elif KEPT_HALVES == 2
#define Kept uvec2
#define KEPT_AS tv_to_bf16x4
#define KEPT_IS tv_bf16x4
#else
#define Kept vec4
#define KEPT_AS
#define KEPT_IS
#endif
shared Kept kept[ROWS][ROUNDS * ROUND];
#if NORM
shared float squares_of[ROWS][SUBGROUPS];
#endif

uint kept_place(uint four) {
  const uint round = four / ROUND, lane = four / FOURS_OF_RUN % LANES_K, i = four % FOURS_OF_RUN;
  return (round * FOURS_OF_RUN + i) * LANES_K + lane;
}

#define LOAD_FOUR(i) EACH_ROW(LOAD_ROW, i)
#define LOAD_ROW(r, i) a[r][i] = KEPT_IS(kept[r][kept_place(k / 4u + i)]);
#if NORM
#define KEEP_ROW(r, x) {                                                                        \
    float squares = 0.0;                                                                        \
    for (uint four = thread; four < K_COUNT / 4u; four += LOCAL_X) {                            \
      const vec4 v = a_four(min(m0 + r, m_count - 1u), 4u * four);                              \
      squares += dot(v, v);                                                                     \
      kept[r][kept_place(four)] = v;                                                            \
    }                                                                                           \
    squares = subgroupAdd(squares);                                                             \
    if (lane == 0u) squares_of[r][gl_SubgroupID] = squares; }
#else
#define KEEP_ROW(r, x)                                                                          \
  for (uint four = thread; four < K_COUNT / 4u; four += LOCAL_X) {                              \
    kept[r][kept_place(four)] = KEPT_AS(a_four(min(m0 + r, m_count - 1u), 4u * four)); }
#endif
#define NORM_ROW(r, x) {                                                                        \
    float squares = 0.0;                                                                        \
    [[unroll]] for (uint i = 0u; i < SUBGROUPS; i++) squares += squares_of[r][i];               \
    inverse[r] = tv_rsqrt(tv_div(squares, float(k_count)) + eps); }
#define NORM_FOUR(r, x) {                                                                       \
    vec4 v = kept[r][kept_place(four)];                                                         \
    NORM_OF(r, v)                                                                               \
    kept[r][kept_place(four)] = v; }
#else
#define LOAD_FOUR(i) {                                                                          \
    NORM_WEIGHTS(k + 4u * i)                                                                    \
    EACH_ROW(LOAD_ROW, i) }
#define LOAD_ROW(r, i) {                                                                        \
    vec4 v = a_four(min(m0 + r, m_count - 1u), k + 4u * i);                                     \
    NORM_OF(r, v)                                                                               \
    a[r][i] = v; }
#endif

void main() {
  const uint lane = gl_SubgroupInvocationID, thread = gl_SubgroupID * LANES_K + lane;
  const uint part = gl_SubgroupID % WK, unit = gl_SubgroupID / WK;
  const uint m0 = gl_WorkGroupID.y * ROWS;
  const uint run = 16u * PASSES, begin = (part * LANES_K + lane) * run, round = WK * LANES_K * run;
  uint n0 = (gl_WorkGroupID.x * UNITS + unit) * OUTPUTS;
  Words words[COLS], ahead[COLS];
#if !DENSE
  float zero[COLS], scale[COLS], zero_ahead[COLS], scale_ahead[COLS];
#endif
  EACH_COLUMN(LOAD_COLUMN, min(begin, k_count - run))
#if NORM
  float inverse[ROWS];
#endif
#if KEPT
  EACH_ROW(KEEP_ROW, 0)
  barrier();
#if NORM
  EACH_ROW(NORM_ROW, 0)
  for (uint four = thread; four < K_COUNT / 4u; four += LOCAL_X) {
    NORM_WEIGHTS(4u * four)
    EACH_ROW(NORM_FOUR, 0)
  }
  barrier();
#endif
#elif NORM
  EACH_ROW(FIND_INVERSE, 0)
#endif
  uint turn = 0u;
  for (uint tile = gl_WorkGroupID.x * UNITS * OUTPUTS; tile < n_count; tile += tiles_apart * UNITS * OUTPUTS) {
    float acc[ROWS][COLS];
    EACH_RESULT(START)
    n0 = tile + unit * OUTPUTS;
    for (uint first = begin; first < k_count; first += round) {
      EACH_COLUMN(TAKE_COLUMN, 0)
      uint next = first + round;
      if (next >= k_count) {
        next = begin;
        n0 += tiles_apart * UNITS * OUTPUTS;
      }
      EACH_COLUMN(LOAD_COLUMN, min(next, k_count - run))
      PASS(0)
#if PASSES > 1
      PASS(1)
#endif
    }
    EACH_RESULT(KEEP)
    barrier();
    for (uint i = thread; i < UNITS * ROWS * OUTPUTS; i += LOCAL_X) {
      const uint u = i / OUTPUTS % UNITS, r = i / (UNITS * OUTPUTS), o = i % OUTPUTS;
#if GATED
      float sum;
      GATE(sum_of(turn, u, r * COLS + 2u * o), sum_of(turn, u, r * COLS + 2u * o + 1u), sum)
#else
      const float sum = sum_of(turn, u, r * COLS + o);
#endif
      const uint m = m0 + r, n = tile + u * OUTPUTS + o;
      if (m < m_count && n < n_count) y_store(m * n_count + n, y_T(sum));
    }
    turn ^= 1u;
  }
}
