// y[m][n] = sum over k of a[m][k] * weight[n][k], of a 2:4 sparse matrix (sparse_weight.glsl), for
// few rows of a: an invocation reads 32 steps of k at once, 16 values in accesses of 16 bytes and a
// word of the index, once for all rows.
//
// A subgroup of LANES_K invocations has COLS columns n and ROWS rows of a; its invocations share k,
// and so do WK subgroups, whose sums are added in order. k_count is a multiple of 32. A4: rows of a
// are read four at a time. HALVES: 0 where values are float32, 1 float16, 2 bfloat16.
// Grid: (ceil(n_count / (COLS * SUBGROUPS / WK)), ceil(m_count / ROWS), 1); local SUBGROUPS *
// LANES_K.

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

// what(0); what(1); … for each four steps of a run.
#define EACH_FOUR(what) what(0); what(1); what(2); what(3); what(4); what(5); what(6); what(7);

// Where an invocation is: rows of a from m0 on, columns from n0 on, steps of k from `k` on.
uint lane, m0, n0, k;
Run runs[COLS];
vec4 a[ROWS], w;  // of four steps: rows of a, and the weights of a column
float acc[ROWS][COLS];

void find_place() {
  lane = gl_SubgroupInvocationID;
  n0 = (gl_WorkGroupID.x * SUBTILES + gl_SubgroupID / WK) * COLS;
  m0 = gl_WorkGroupID.y * ROWS;
}

void load_column(uint c, uint k) { runs[c] = run_of(min(n0 + c, n_count - 1u), k); }
void load_row(uint r, uint g) { a[r] = a_four(min(m0 + r, m_count - 1u), k + g * 4u); }
void add_result(uint r, uint c) { acc[r][c] = plus_four(acc[r][c], a[r], w); }
void add_column(uint c, uint g) {
  w = four_of(kept_of(runs[c], g), runs[c].places >> (4 * g));
  EACH_ROW(add_result, c)
}
void add_four(uint g) {
  EACH_ROW(load_row, g)
  EACH_COLUMN(add_column, g)
}
void start(uint c, uint r) { acc[r][c] = 0.0; }
void keep(uint c, uint r) {
  const float all = subgroupAdd(acc[r][c]);
  if (lane == 0u) sums[gl_SubgroupID][r * COLS + c] = all;
}

void store() {
  for (uint i = gl_LocalInvocationID.x; i < SUBTILES * TILE; i += LOCAL_X) {
    const Place p = place_of(i);
    float sum = sums[p.subtile * WK][p.e];
    FOR(s, WK - 1) sum += sums[p.subtile * WK + s + 1u][p.e];
    if (p.m < m_count && p.n < n_count) y_store(p.m * n_count + p.n, y_T(sum));
  }
}

void main() {
  find_place();
  EACH_RESULT(start)
  for (k = (gl_SubgroupID % WK * LANES_K + lane) * RUN; k < k_count; k += WK * LANES_K * RUN) {
    EACH_COLUMN(load_column, k)
    EACH_FOUR(add_four)
  }
  EACH_RESULT(keep)
  barrier();
  store();
}
