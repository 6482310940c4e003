// y[m][n] = sum over k of a[m][k] * weight[n][k], of a quantised matrix (quantised_words.glsl), for
// few rows of a: the packed words are read once, WORDS an invocation and step.
//
// A subgroup of LANES_K invocations has COLS columns n and ROWS rows of a; its invocations share k,
// and so do WK subgroups, whose sums are added in order. A group has a multiple of the elements of
// WORDS words;
// WHOLE_ROWS: it is a row. A4: rows of a are read four at a time.
// Grid: (ceil(n_count / (COLS * SUBGROUPS / WK)), ceil(m_count / ROWS), 1); local SUBGROUPS *
// LANES_K.

#include "few_rows.glsl"
#include "quantised_words.glsl"
#include "rows_of_a.glsl"

const uint RUN = WORDS * WORD_ELEMENTS;
shared float sums[SUBGROUPS][TILE];

#if WORDS == 4
#define Words uvec4
#define words_of four_words
#define EACH_WORD(what) what(0); what(1); what(2); what(3);
#else
#define Words uvec2
#define words_of two_words
#define EACH_WORD(what) what(0); what(1);
#endif

float plus_four(float sum, vec4 a, vec4 w) {
  return fma(a.w, w.w, fma(a.z, w.z, fma(a.y, w.y, fma(a.x, w.x, sum))));
}

// Where an invocation is: rows of a from m0 on, columns from n0 on, steps of k from `k` on.
uint lane, m0, n0, k;
// What it has of each column from there: words, of one group.
Words words[COLS];
float zero[COLS], scale[COLS];
// of a word's steps: rows of a, and the weights of a column
vec4 a[ROWS][FOURS], w[FOURS];
// results, and sums of products that are still to be scaled
float acc[ROWS][COLS], sum[ROWS][COLS];

void find_place() {
  lane = gl_SubgroupInvocationID;
  n0 = (gl_WorkGroupID.x * SUBTILES + gl_SubgroupID / WK) * COLS;
  m0 = gl_WorkGroupID.y * ROWS;
}

void load_column(uint c, uint group) {
  const uint n = min(n0 + c, n_count - 1u);
  words[c] = words_of(n, k);
  zero[c] = quantised_zero(n, group);
  scale[c] = quantised_scale(n, group);
}

void load_columns() {
#if WHOLE_ROWS
  const uint group = 0u;
#else
  const uint group = k / group_steps;
#endif
  EACH_COLUMN(load_column, group)
}

/// The elements of row r that word i multiplies.
void load_row(uint r, uint i) {
  const uint m = min(m0 + r, m_count - 1u), from = k + i * WORD_ELEMENTS;
  a[r][0] = a_four(m, from);
#if BITS == 4
  a[r][1] = a_four(m, from + 4u);
#endif
}

void add_result(uint r, uint c) {
  sum[r][c] = plus_four(sum[r][c], a[r][0], w[0]);
#if BITS == 4
  sum[r][c] = plus_four(sum[r][c], a[r][1], w[1]);
#endif
}

void add_column(uint c, uint i) {
  unpack_word(words[c][i], zero[c], w);
  EACH_ROW(add_result, c)
}

void add_word(uint i) {
  EACH_ROW(load_row, i)
  EACH_COLUMN(add_column, i)
}

void start(uint c, uint r) { acc[r][c] = 0.0; }
void start_group(uint c, uint r) { sum[r][c] = 0.0; }
void end_group(uint c, uint r) { acc[r][c] = fma(sum[r][c], scale[c], acc[r][c]); }
void keep(uint c, uint r) {
  const float all = subgroupAdd(acc[r][c]);
  if (lane == 0u) sums[gl_SubgroupID][r * COLS + c] = all;
}

void store() {
  for (uint i = gl_LocalInvocationID.x; i < SUBTILES * TILE; i += LOCAL_X) {
    const Place p = place_of(i);
    float all = sums[p.subtile * WK][p.e];
    FOR(s, WK - 1) all += sums[p.subtile * WK + s + 1u][p.e];
    if (p.m < m_count && p.n < n_count) y_store(p.m * n_count + p.n, y_T(all));
  }
}

void main() {
  find_place();
  EACH_RESULT(start)
  for (k = (gl_SubgroupID % WK * LANES_K + lane) * RUN; k < k_count; k += WK * LANES_K * RUN) {
    load_columns();
    EACH_RESULT(start_group)
    EACH_WORD(add_word)
    EACH_RESULT(end_group)
  }
  EACH_RESULT(keep)
  barrier();
  store();
}
