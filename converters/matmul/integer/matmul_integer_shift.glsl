// Sums of products of bytes on matrix units (matmul_matrix.comp, BYTES), with what they lack
// (integer_shift.glsl): k_count counts pairs there, `terms` are the elements of a row.

#define TERMS terms
#include "integer_shift.glsl"

int shifted_sum(uint z, uint m, uint n, int sum) {
#if B_SHIFTED
  const int a_sum = a_sums_raw(z * m_count + m);
#else
  const int a_sum = 0;
#endif
  return integer_shifted(sum, a_sum, m, n, z * b_rows + n);
}
