// y[z][m][n] = sum over k of (a[z][m][k] - a_zero[m]) * (b[z][n][k] - b_zero[n]) for few rows of a:
// four bytes at once, every word of b is read once; sums of 32 bits that wrap.
//
// Rows of a and b are dense and `quads` words long, a multiple of WORDS, which an invocation loads
// at a time; bytes past k_count are 0 in both. A_FLIP, B_FLIP make signed bytes of them
// (integer_shift.glsl). A subgroup of LANES_K invocations has COLS columns and ROWS rows; its
// invocations share k, and so do WK subgroups.
// Grid: (ceil(n_count / (COLS * SUBGROUPS / WK)), ceil(m_count / ROWS), z); local SUBGROUPS *
// LANES_K.

#include "few_rows.glsl"
#include "integer_dot.glsl"
#include "integer_shift.glsl"

shared int sums[SUBGROUPS][TILE + ROWS];  // behind the results those of rows of a

#if WORDS == 4
#define Words uvec4
Words words_at(uint64_t from, uint i) {
  uint64_t at = from + uint64_t(i) * 4ul;
#if TV_CHECK
  at = tv_check_ptr(at, 16u);
#endif
  return tv_ref_u32x4(at).v[0];
}
int plus_dot(int sum, Words x, Words y) {
  sum += integer_dot(x.x, y.x);
  sum += integer_dot(x.y, y.y);
  sum += integer_dot(x.z, y.z);
  sum += integer_dot(x.w, y.w);
  return sum;
}
#else
#define Words uint
#define words_at integer_word
int plus_dot(int sum, Words x, Words y) { return sum + integer_dot(x, y); }
#endif

// Where an invocation is: rows of a from m0 on, columns from n0 on, of matrix z.
uint lane, z, m0, n0;
Words a, b[COLS];  // words of a row and of each column
int acc[ROWS][COLS];
#if B_SHIFTED
int a_sums[ROWS];
#endif

void find_place() {
  lane = gl_SubgroupInvocationID;
  z = gl_WorkGroupID.z;
  n0 = (gl_WorkGroupID.x * SUBTILES + gl_SubgroupID / WK) * COLS;
  m0 = gl_WorkGroupID.y * ROWS;
}

void load_column(uint c, uint q) {
  const uint line = z * b_rows + min(n0 + c, n_count - 1u);
  b[c] = words_at(uint64_t(b_ptr), line * quads + q) ^ B_FLIP;
}

void add_product(uint c, uint r) { acc[r][c] = plus_dot(acc[r][c], a, b[c]); }
/// Adds the products of words q … of row r.
void add_row(uint r, uint q) {
  const uint line = z * m_count + min(m0 + r, m_count - 1u);
  a = words_at(uint64_t(a_ptr), line * quads + q) ^ A_FLIP;
  EACH_COLUMN(add_product, r)
#if B_SHIFTED
  a_sums[r] = plus_dot(a_sums[r], a, Words(0x01010101u));
#endif
}

void start(uint c, uint r) { acc[r][c] = 0; }
void keep(uint c, uint r) {
  const int all = subgroupAdd(acc[r][c]);
  if (lane == 0u) sums[gl_SubgroupID][r * COLS + c] = all;
}
#if B_SHIFTED
/// The sum of row r behind the results.
void keep_sum(uint r, uint first) {
  const int all = subgroupAdd(a_sums[r]);
  if (lane == 0u) sums[gl_SubgroupID][first + r] = all;
}
#endif

void store() {
  for (uint i = gl_LocalInvocationID.x; i < SUBTILES * TILE; i += LOCAL_X) {
    const Place p = place_of(i);
    int sum = 0, a_sum = 0;
    FOR(s, WK) {
      sum += sums[p.subtile * WK + s][p.e];
#if B_SHIFTED
      a_sum += sums[p.subtile * WK + s][TILE + p.e / COLS];
#endif
    }
    if (p.m < m_count && p.n < n_count) {
      y_store((z * m_count + p.m) * n_count + p.n,
              integer_shifted(sum, a_sum, B_SUM(z * b_rows + p.n), p.m, p.n));
    }
  }
}

void main() {
  find_place();
  EACH_RESULT(start)
#if B_SHIFTED
  FOR(r, ROWS) a_sums[r] = 0;
#endif
  // Rows past the last are the last once more; their results are not stored.
  for (uint q = (gl_SubgroupID % WK * LANES_K + lane) * WORDS; q < quads;
      q += WK * LANES_K * WORDS) {
    EACH_COLUMN(load_column, q)
    EACH_ROW(add_row, q)
  }
  EACH_RESULT(keep)
#if B_SHIFTED
  EACH_ROW(keep_sum, TILE)
#endif
  barrier();
  store();
}
