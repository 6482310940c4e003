// y[m][n] = sum over k of f(a[m][k]) * weight[n][k], for few rows of a: every weight is read once, 16
// or 32 elements an invocation and step (rows_of_weights.glsl).
//
// NORM: f is the program `normed` of a[m][k] / sqrt(mean over k of a[m][k]² + eps), else a itself.
// GATED: weight has 2 * n_count rows, and y is the program `gated` of the sums of rows n and
// n + n_count.
// A subgroup of LANES_K invocations has COLS (2) rows of weight and ROWS rows of a; its invocations share k.
// Grid: (ceil(n_count / (OUTPUTS * SUBGROUPS)), ceil(m_count / ROWS), 1); local SUBGROUPS * LANES_K.

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

shared float sums[SUBGROUPS][TILE];

/// The row of weight that column c of a subgroup multiplies.
uint weight_row(uint n0, uint c) {
#if GATED
  return min(n0 + c / 2u, n_count - 1u) + (c % 2u) * n_count;
#else
  return min(n0 + c, n_count - 1u);
#endif
}

// What is done for each column c of a subgroup, of which there are two, and for each pass of 16 steps of k:
// written out, as compilers may keep a loop around so much.
#if DENSE
#define LOAD_COLUMN(c, x)
#define WEIGHTS(c, pass, w) weights_16(weight_row(n0, c), k, w);
#define SCALE(c) 1.0
#else
#define LOAD_COLUMN(c, x) {                                                                     \
    const uint n = weight_row(n0, c);                                                           \
    words[c] = words_of(n, first);                                                              \
    zero[c] = quantised_zero(n, group);                                                         \
    scale[c] = quantised_scale(n, group); }
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
    if (lane == 0u) sums[gl_SubgroupID][(r) * COLS + c] = all; }
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
#define LOAD_FOUR(i) {                                                                          \
    NORM_WEIGHTS(k + 4u * i)                                                                    \
    EACH_ROW(LOAD_ROW, i) }
#define LOAD_ROW(r, i) {                                                                        \
    vec4 v = a_four(min(m0 + r, m_count - 1u), k + 4u * i);                                     \
    NORM_OF(r, v)                                                                               \
    a[r][i] = v; }

void main() {
  const uint lane = gl_SubgroupInvocationID;
  const uint n0 = (gl_WorkGroupID.x * SUBGROUPS + gl_SubgroupID) * OUTPUTS;
  const uint m0 = gl_WorkGroupID.y * ROWS;
#if NORM
  float inverse[ROWS];
  EACH_ROW(FIND_INVERSE, 0)
#endif
  float acc[ROWS][COLS];
  EACH_RESULT(START)
  const uint run = 16u * PASSES;
  for (uint first = lane * run; first < k_count; first += LANES_K * run) {
#if !DENSE
    const uint group = first / group_steps;
    Words words[COLS];
    float zero[COLS], scale[COLS];
#endif
    EACH_COLUMN(LOAD_COLUMN, 0)
    PASS(0)
#if PASSES > 1
    PASS(1)
#endif
  }
  EACH_RESULT(KEEP)
  barrier();
  for (uint i = gl_LocalInvocationID.x; i < SUBGROUPS * ROWS * OUTPUTS; i += LOCAL_X) {
    const uint unit = i / OUTPUTS % SUBGROUPS, r = i / (SUBGROUPS * OUTPUTS), o = i % OUTPUTS;
#if GATED
    float sum;
    GATE(sums[unit][r * COLS + 2u * o], sums[unit][r * COLS + 2u * o + 1u], sum)
#else
    const float sum = sums[unit][r * COLS + o];
#endif
    const uint m = m0 + r, n = (gl_WorkGroupID.x * SUBGROUPS + unit) * OUTPUTS + o;
    if (m < m_count && n < n_count) y_store(m * n_count + n, y_T(sum));
  }
}
