// Sums of products of bytes on matrix units (matmul_matrix.comp, BYTES), with what they lack
// (integer_shift.glsl): k_count counts pairs there, `terms` are the elements of a row. Rows of an
// operand are summed where the other's bytes are shifted: a's, and b's unless B_SUMMED says that
// b_sums has them, from the chunks that an invocation copies on their way into shared memory.
// B_ANY: b_any says whether b's bytes are shifted, which nobody knows before its zero points are
// there.

#define TERMS terms
#include "byte_sums.glsl"
#include "integer_shift.glsl"

#define SUMS_A B_SHIFTED
#if A_SHIFTED && !B_SUMMED
#define SUMS_B 1
#else
#define SUMS_B 0
#endif

#if SUMS_A
shared int parts_a[ROWS_A * (COLS_A / 8)];
#if B_ANY
bool b_is_shifted;
#else
const bool b_is_shifted = true;
#endif
#endif
#if SUMS_B
shared int parts_b[ROWS_B * (COLS_B / 8)];
#endif

int shifted_sum(uint z, uint m, uint n, int sum) {
  int a_sum = 0, b_sum = 0;
#if SUMS_A
  if (b_is_shifted) a_sum = parts_a[m % BM * (COLS_A / 8)];
#endif
#if SUMS_B
  b_sum = parts_b[n % BN * (COLS_B / 8)];
#elif A_SHIFTED
  b_sum = b_sums_raw(z * b_rows + n);
#endif
  return integer_shifted(sum, a_sum, b_sum, m, n);
}
