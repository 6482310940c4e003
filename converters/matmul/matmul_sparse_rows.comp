// y[m][n] = sum over k of a[m][k] * weight[n][k], of a 2:4 sparse matrix (sparse_weight.glsl), for few
// rows of a: an invocation reads 32 steps of k at once, 16 values in accesses of 16 bytes and a word of
// the index, once for all rows.
//
// A subgroup of LANES_K invocations has COLS columns n and ROWS rows of a; its invocations share k, and so
// do WK subgroups, whose sums are added in order. k_count is a multiple of 32. A4: rows of a are read four
// at a time. HALVES: 0 where values are float32, 1 float16, 2 bfloat16.
// Grid: (ceil(n_count / (COLS * SUBGROUPS / WK)), ceil(m_count / ROWS), 1); local SUBGROUPS * LANES_K.

#include "few_rows.glsl"
#include "rows_of_a.glsl"
#include "sparse_weight.glsl"

const uint RUN = 32;
const uint VALUE_BYTES = HALVES > 0 ? 2 : 4, LOADS = VALUE_BYTES;  // of 16 bytes
shared float sums[SUBGROUPS][TILE];

uint64_t checked(uint64_t at, uint bytes) {
#if TV_CHECK
  return tv_check_ptr(at, bytes);
#else
  return at;
#endif
}

struct Run { uvec4 values[LOADS]; uint places; };

/// Steps k … k + 31 of row n, as they lie.
Run run_of(uint n, uint k) {
  Run run;
  const uint64_t from = uint64_t(values_ptr) + uint64_t(n * (k_count / 2u) + k / 2u) * VALUE_BYTES;
  FOR(i, LOADS) run.values[i] = tv_ref_u32x4(checked(from + 16u * i, 16u)).v[0];
  const uint64_t at = uint64_t(index_ptr) + uint64_t(n * (k_count / 8u) + k / 8u);
  run.places = tv_ref_u32(checked(at, 4u)).v[0];
  return run;
}

/// The two values of the four with number g.
vec2 kept_of(Run run, uint g) {
#if HALVES == 0
  const uvec4 words = run.values[g / 2u];
  return uintBitsToFloat(g % 2u == 0u ? words.xy : words.zw);
#else
  const uint word = run.values[g / 4u][g % 4u];
#if HALVES == 1
  return tv_f16x4(uvec2(word, 0u)).xy;
#else
  return tv_bf16x4(uvec2(word, 0u)).xy;
#endif
#endif
}

float plus_four(float sum, vec4 a, vec4 w) {
  return fma(a.w, w.w, fma(a.z, w.z, fma(a.y, w.y, fma(a.x, w.x, sum))));
}

#define EACH_FOUR(what) what(0) what(1) what(2) what(3) what(4) what(5) what(6) what(7)
#define LOAD_COLUMN(c, k) runs[c] = run_of(min(n0 + c, n_count - 1u), k);
#define LOAD_ROW(r, g) a[r] = a_four(min(m0 + r, m_count - 1u), k + g * 4u);
#define ADD_RESULT(r, c) acc[r][c] = plus_four(acc[r][c], a[r], w);
#define ADD_COLUMN(c, g) {                                                                      \
    const vec4 w = four_of(kept_of(runs[c], g), runs[c].places >> (4 * g));                     \
    EACH_ROW(ADD_RESULT, c) }
#define ADD_FOUR(g) {                                                                           \
    vec4 a[ROWS];                                                                               \
    EACH_ROW(LOAD_ROW, g)                                                                       \
    EACH_COLUMN(ADD_COLUMN, g) }
#define START(c, r) acc[r][c] = 0.0;
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
    Run runs[COLS];
    EACH_COLUMN(LOAD_COLUMN, k)
    EACH_FOUR(ADD_FOUR)
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
