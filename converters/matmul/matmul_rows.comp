// y[m][n] = sum over k of f(a[m][k]) * weight[n][k], for few rows of a: every weight is read once,
// 16 or 32 elements an invocation and step (rows_of_weights.glsl).
//
// NORM: f is the program `normed` of a[m][k] / sqrt(mean over k of a[m][k]² + eps), else a itself.
// GATED: weight has 2 * n_count rows, and y is the program `gated` of the sums of rows n and n +
// n_count. A subgroup of LANES_K invocations has COLS rows of weight and ROWS rows of a; its
// invocations share k, and so do WK subgroups, whose sums are added in order. A workgroup computes
// a tile of SUBTILES * OUTPUTS outputs, and further ones, `tiles_apart` tiles apart. The weights of
// a step are asked for a step ahead, the first ones before the norm, those of a next tile in the
// last step of one. KEPT: f(a) is computed once for a workgroup, in shared memory, which K_COUNT
// elements of each row take, in 16 bits where KEPT_HALVES names a's type (1: float16, 2: bfloat16);
// else by each subgroup.
// Grid: (tiles_apart, ceil(m_count / ROWS), 1); local SUBGROUPS * LANES_K.

#include "few_rows.glsl"
#include "rows_of_a.glsl"
#include "rows_of_weights.glsl"

#if NORM
NORM_FUNCTION
NORM_VARIABLES
#endif
#if GATED
GATE_FUNCTION
#define OUTPUTS (COLS / 2u)
#else
#define OUTPUTS COLS
#endif

const uint RUN = 16u * PASSES;           // steps of k that an invocation has at once,
const uint ROUND_OF_K = WK * LANES_K * RUN;  // and all that share k

shared float sums[2][SUBGROUPS][TILE];  // of this tile and the one before

// Where an invocation is: invocation `lane` of a subgroup that has the rows of a from m0 on, the
// outputs from n0 on and, of each round, the steps of k from `begin` on.
uint lane, thread, part, subtile, m0, n0, begin;
uint turn;  // which of `sums` is this tile's
// The weights of a step and those on their way, of each column.
Words words[COLS], ahead[COLS];
#if !DENSE
float zero[COLS], scale[COLS], zero_ahead[COLS], scale_ahead[COLS];
#endif
#if NORM
float inverse[ROWS];  // 1 / sqrt(…) of each row of a
#endif
vec4 a[ROWS][4], w[4];  // of a pass of 16 steps from `k` on: rows of a, and the weights of a column
uint k;
float acc[ROWS][COLS];

void find_place() {
  lane = gl_SubgroupInvocationID;
  thread = gl_SubgroupID * LANES_K + lane;
  part = gl_SubgroupID % WK;
  subtile = gl_SubgroupID / WK;
  m0 = gl_WorkGroupID.y * ROWS;
  n0 = (gl_WorkGroupID.x * SUBTILES + subtile) * OUTPUTS;
  begin = (part * LANES_K + lane) * RUN;
  turn = 0u;
}

/// The row of weight that column c of a subgroup multiplies.
uint weight_row(uint c) {
#if GATED
  return min(n0 + c / 2u, n_count - 1u) + (c % 2u) * n_count;
#else
  return min(n0 + c, n_count - 1u);
#endif
}

/// Asks for the weights of column c from step k on.
void load_column(uint c, uint k) {
  const uint n = weight_row(c);
  ahead[c] = words_of(n, k);
#if !DENSE
  const uint group = k / group_steps;
  zero_ahead[c] = quantised_zero(n, group);
  scale_ahead[c] = quantised_scale(n, group);
#endif
}

void take_columns() {
  FOR(c, COLS) {
    words[c] = ahead[c];
#if !DENSE
    zero[c] = zero_ahead[c];
    scale[c] = scale_ahead[c];
#endif
  }
}

vec4 row_of_a(uint r, uint k) { return a_four(min(m0 + r, m_count - 1u), k); }

#if NORM
/// v of row r, normalised, with what NORM_WEIGHTS has loaded.
vec4 normed_four(uint r, vec4 v) {
  const vec4 x = v * inverse[r];
  NORMED(x, v)
  return v;
}
#else
#define NORM_WEIGHTS(k)
#define normed_four(r, v) (v)
#endif

#if NORM && !KEPT
/// Each subgroup finds those of its rows, of `count` elements.
void find_inverse(uint r, uint count) {
  float squares = 0.0;
  for (uint k = lane * 4u; k < count; k += LANES_K * 4u) {
    const vec4 v = row_of_a(r, k);
    squares += dot(v, v);
  }
  inverse[r] = tv_rsqrt(tv_div(subgroupAdd(squares), float(count)) + eps);
}
#endif

#if KEPT
// The vector of four that pass and i name lies beside those of the other invocations.
// vectors, of one and of all invocations
const uint FOURS_OF_RUN = 4u * PASSES, ROUND = FOURS_OF_RUN * LANES_K;
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

/// Rows of `fours` vectors into shared memory, and the sums of their squares.
void keep_row(uint r, uint fours) {
#if NORM
  float squares = 0.0;
  for (uint four = thread; four < fours; four += LOCAL_X) {
    const vec4 v = row_of_a(r, 4u * four);
    squares += dot(v, v);
    kept[r][kept_place(four)] = v;
  }
  squares = subgroupAdd(squares);
  if (lane == 0u) squares_of[r][gl_SubgroupID] = squares;
#else
  for (uint four = thread; four < fours; four += LOCAL_X) {
    kept[r][kept_place(four)] = KEPT_AS(row_of_a(r, 4u * four));
  }
#endif
}

#if NORM
void add_squares(uint r, uint count) {
  float squares = 0.0;
  FOR(i, SUBGROUPS) squares += squares_of[r][i];
  inverse[r] = tv_rsqrt(tv_div(squares, float(count)) + eps);
}

void norm_kept(uint r, uint place) { kept[r][place] = normed_four(r, kept[r][place]); }
#endif

void load_row(uint r, uint i) { a[r][i] = KEPT_IS(kept[r][kept_place(k / 4u + i)]); }
void load_four(uint i) { EACH_ROW(load_row, i) }
#else
void load_row(uint r, uint i) { a[r][i] = normed_four(r, row_of_a(r, k + 4u * i)); }
void load_four(uint i) {
  NORM_WEIGHTS(k + 4u * i)
  EACH_ROW(load_row, i)
}
#endif

/// What the products need of whole rows of a: the rows, or what normalises them.
void prepare_rows() {
#if KEPT
  EACH_ROW(keep_row, K_COUNT / 4u)
  barrier();
#if NORM
  EACH_ROW(add_squares, k_count)
  for (uint four = thread; four < K_COUNT / 4u; four += LOCAL_X) {
    NORM_WEIGHTS(4u * four)
    EACH_ROW(norm_kept, kept_place(four))
  }
  barrier();
#endif
#elif NORM
  EACH_ROW(find_inverse, k_count)
#endif
}

void add_result(uint r, uint c) {
  const float sum = dot(a[r][0], w[0]) + dot(a[r][1], w[1]) + dot(a[r][2], w[2]) +
      dot(a[r][3], w[3]);
#if DENSE
  acc[r][c] = fma(sum, 1.0, acc[r][c]);
#else
  acc[r][c] = fma(sum, scale[c], acc[r][c]);
#endif
}

void add_column(uint c, uint pass) {
#if DENSE
  unpack_16(words_of_pass(words[c], pass), 0.0, w);
#else
  unpack_16(words_of_pass(words[c], pass), zero[c], w);
#endif
  EACH_ROW(add_result, c)
}

/// Adds the products of 16 steps of k.
void add_pass(uint first, uint pass) {
  k = first + 16u * pass;
  load_four(0);
  load_four(1);
  load_four(2);
  load_four(3);
  EACH_COLUMN(add_column, pass)
}

void start(uint c, uint r) { acc[r][c] = 0.0; }
void keep(uint c, uint r) {
  const float all = subgroupAdd(acc[r][c]);
  if (lane == 0u) sums[turn][gl_SubgroupID][r * COLS + c] = all;
}

/// Result e of a subtile, whose WK subgroups share the steps of k.
float sum_of(uint subtile, uint e) {
  float sum = sums[turn][subtile * WK][e];
  FOR(s, WK - 1) sum += sums[turn][subtile * WK + s + 1u][e];
  return sum;
}

/// The outputs of the tile that begins at column `tile`.
void store(uint tile) {
  for (uint i = thread; i < SUBTILES * ROWS * OUTPUTS; i += LOCAL_X) {
    const uint u = i / OUTPUTS % SUBTILES, r = i / (SUBTILES * OUTPUTS), o = i % OUTPUTS;
#if GATED
    float sum;
    GATE(sum_of(u, r * COLS + 2u * o), sum_of(u, r * COLS + 2u * o + 1u), sum)
#else
    const float sum = sum_of(u, r * COLS + o);
#endif
    const uint m = m0 + r, n = tile + u * OUTPUTS + o;
    if (m < m_count && n < n_count) y_store(m * n_count + n, y_T(sum));
  }
}

void main() {
  find_place();
  EACH_COLUMN(load_column, min(begin, k_count - RUN))
  prepare_rows();
  for (uint tile = gl_WorkGroupID.x * SUBTILES * OUTPUTS; tile < n_count;
      tile += tiles_apart * SUBTILES * OUTPUTS) {
    EACH_RESULT(start)
    n0 = tile + subtile * OUTPUTS;
    for (uint first = begin; first < k_count; first += ROUND_OF_K) {
      take_columns();
      uint next = first + ROUND_OF_K;
      if (next >= k_count) {
        next = begin;
        n0 += tiles_apart * SUBTILES * OUTPUTS;
      }
      EACH_COLUMN(load_column, min(next, k_count - RUN))
      add_pass(first, 0);
#if PASSES > 1
      add_pass(first, 1);
#endif
    }
    EACH_RESULT(keep)
    barrier();
    store(tile);
    turn ^= 1u;
  }
}
