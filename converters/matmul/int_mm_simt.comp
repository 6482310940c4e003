// y[m][n] = sum over k of a[m][k] * b[n][k]: 8-bit integers, sums of 32 bits that wrap. Rows of a and
// b are dense and 4 * quads elements long. HEIGHT x 4 results an invocation; `across` invocations
// make a row of blocks.

#define FOR(i, n) [[unroll]] for (uint i = 0u; i < uint(n); i++)

void main() {
  const uint id = tv_group() * LOCAL_X + gl_LocalInvocationID.x;
  const uint block = id / across, m = block * HEIGHT, n = (id - block * across) * 4;
  if (m >= m_count) return;
  int sums[HEIGHT][4];
  FOR(i, HEIGHT)
    FOR(j, 4) sums[i][j] = 0;
  // Rows past the last are the last once more; their results are not stored.
  for (uint q = 0; q < quads; q++) {
    ivec4 row[4];
    FOR(j, 4) row[j] = b_vec4((min(n + j, n_count - 1) * quads + q) * 4);
    FOR(i, HEIGHT) {
      const ivec4 x = a_vec4((min(m + i, m_count - 1) * quads + q) * 4);
      FOR(j, 4) {
        const ivec4 products = x * row[j];
        sums[i][j] += products.x + products.y + products.z + products.w;
      }
    }
  }
  FOR(i, HEIGHT)
    FOR(j, 4)
      if (m + i < m_count && n + j < n_count) y_store((m + i) * n_count + n + j, sums[i][j]);
}
