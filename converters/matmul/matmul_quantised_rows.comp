// y[m][n] = sum over k of a[m][k] * weight[n][k], of a quantised matrix (quantised_words.glsl), for few
// rows of a: the packed words are read once, WORDS an invocation and step.
//
// A subgroup of LANES_K invocations has COLS columns n and ROWS rows of a; its invocations share k, and so
// do WK subgroups, whose sums are added in order. A group has a multiple of the elements of WORDS words;
// WHOLE_ROWS: it is a row. A4: rows of a are read four at a time.
// Grid: (ceil(n_count / (COLS * SUBGROUPS / WK)), ceil(m_count / ROWS), 1); local SUBGROUPS * LANES_K.

#include "few_rows.glsl"
#include "quantised_words.glsl"
#include "rows_of_a.glsl"

const uint RUN = WORDS * WORD_ELEMENTS;
shared float sums[SUBGROUPS][TILE];

#if WORDS == 4
#define Words uvec4
#define words_of four_words
#define EACH_WORD(what) what(0) what(1) what(2) what(3)
#else
#define Words uvec2
#define words_of two_words
#define EACH_WORD(what) what(0) what(1)
#endif

float plus_four(float sum, vec4 a, vec4 w) {
  return fma(a.w, w.w, fma(a.z, w.z, fma(a.y, w.y, fma(a.x, w.x, sum))));
}

#define LOAD_COLUMN(c, x) {                                                                     \
    const uint n = min(n0 + c, n_count - 1u);                                                   \
    words[c] = words_of(n, k);                                                                  \
    zero[c] = quantised_zero(n, group);                                                         \
    scale[c] = quantised_scale(n, group); }
#if BITS == 4
#define LOAD_ROW(r, i) {                                                                        \
    const uint m = min(m0 + r, m_count - 1u);                                                   \
    a[r][0] = a_four(m, k + i * 8u);                                                            \
    a[r][1] = a_four(m, k + i * 8u + 4u); }
#define ADD_RESULT(r, c) sum[r][c] = plus_four(plus_four(sum[r][c], a[r][0], w[0]), a[r][1], w[1]);
#else
#define LOAD_ROW(r, i) a[r][0] = a_four(min(m0 + r, m_count - 1u), k + i * 4u);
#define ADD_RESULT(r, c) sum[r][c] = plus_four(sum[r][c], a[r][0], w[0]);
#endif
#define ADD_COLUMN(c, i) {                                                                      \
    vec4 w[FOURS];                                                                              \
    unpack_word(words[c][i], zero[c], w);                                                       \
    EACH_ROW(ADD_RESULT, c) }
#define ADD_WORD(i) {                                                                           \
    vec4 a[ROWS][FOURS];                                                                        \
    EACH_ROW(LOAD_ROW, i)                                                                       \
    EACH_COLUMN(ADD_COLUMN, i) }
#define START(c, r) acc[r][c] = 0.0;
#define START_GROUP(c, r) sum[r][c] = 0.0;
#define END_GROUP(c, r) acc[r][c] = fma(sum[r][c], scale[c], acc[r][c]);
#define KEEP(c, r) {                                                                            \
    const float all = subgroupAdd(acc[r][c]);                                                   \
    if (lane == 0u) sums[gl_SubgroupID][(r) * COLS + c] = all; }

void main() {
  const uint lane = gl_SubgroupInvocationID, part = gl_SubgroupID % WK;
  const uint n0 = (gl_WorkGroupID.x * UNITS + gl_SubgroupID / WK) * COLS;
  const uint m0 = gl_WorkGroupID.y * ROWS;
  float acc[ROWS][COLS];
  EACH_RESULT(START)
  for (uint k = (part * LANES_K + lane) * RUN; k < k_count; k += WK * LANES_K * RUN) {
#if WHOLE_ROWS
    const uint group = 0u;
#else
    const uint group = k / group_steps;
#endif
    Words words[COLS];
    float zero[COLS], scale[COLS], sum[ROWS][COLS];
    EACH_COLUMN(LOAD_COLUMN, 0)
    EACH_RESULT(START_GROUP)
    EACH_WORD(ADD_WORD)
    EACH_RESULT(END_GROUP)
  }
  EACH_RESULT(KEEP)
  barrier();
  for (uint i = gl_LocalInvocationID.x; i < UNITS * TILE; i += LOCAL_X) {
    const Place p = place_of(i);
    float sum = sums[p.unit * WK][p.e];
    FOR(s, WK - 1) sum += sums[p.unit * WK + s + 1u][p.e];
    if (p.m < m_count && p.n < n_count) y_store(p.m * n_count + p.n, y_T(sum));
  }
}
