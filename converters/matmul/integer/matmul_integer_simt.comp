// y[z][m][n] = sum over k of (a[z][m][k] - a_zero[m]) * (b[z][n][k] - b_zero[n]): four bytes at
// once, sums of 32 bits that wrap.
//
// Rows of a and b are dense and `quads` words long; bytes past k_count are 0 in both. A_FLIP,
// B_FLIP make signed bytes of them (integer_shift.glsl). HEIGHT x 4 results an invocation; `across`
// invocations make a row of blocks.

#include "integer_dot.glsl"
#include "integer_shift.glsl"

#define FOR(i, n) [[unroll]] for (uint i = 0u; i < uint(n); i++)

void main() {
  const uint id = tv_group() * LOCAL_X + gl_LocalInvocationID.x;
  const uint line = id / across, z = line / blocks, m = (line - z * blocks) * HEIGHT;
  const uint n = (id - line * across) * 4u;
  if (z >= batch) return;
  int sums[HEIGHT][4], a_sums[HEIGHT];
  FOR(i, HEIGHT) {
    a_sums[i] = 0;
    FOR(j, 4) sums[i][j] = 0;
  }
  // Rows past the last are the last once more; their results are not stored.
  for (uint q = 0u; q < quads; q++) {
    uint row[4];
    FOR(j, 4) {
      const uint line_b = z * b_rows + min(n + j, n_count - 1u);
      row[j] = integer_word(uint64_t(b_ptr), line_b * quads + q) ^ B_FLIP;
    }
    FOR(i, HEIGHT) {
      const uint line_a = z * m_count + min(m + i, m_count - 1u);
      const uint x = integer_word(uint64_t(a_ptr), line_a * quads + q) ^ A_FLIP;
      FOR(j, 4) sums[i][j] += integer_dot(x, row[j]);
#if B_SHIFTED
      a_sums[i] += integer_dot(x, 0x01010101u);
#endif
    }
  }
  FOR(i, HEIGHT) {
    FOR(j, 4) {
      if (m + i >= m_count || n + j >= n_count) continue;
      y_store((z * m_count + m + i) * n_count + n + j,
              integer_shifted(sums[i][j], a_sums[i], B_SUM(z * b_rows + n + j), m + i, n + j));
    }
  }
}
