// What the sums of two operands' signed bytes lack: those are A_OFFSET and B_OFFSET less than the
// elements, from which zero points are then subtracted. A_SHIFTED, B_SHIFTED: whether anything is.
// TERMS: of a sum, k_count unless the kernel says otherwise.

#include "integer_zeros.glsl"

#ifndef TERMS
#define TERMS k_count
#endif

#if A_SHIFTED
#define B_SUM(row) b_sums_raw(row)
#else
#define B_SUM(row) 0
#endif

int a_shift_of(uint m) { return a_zero_of(m) - A_OFFSET; }
int b_shift_of(uint n) { return b_zero_of(n) - B_OFFSET; }

/// `sum` of products, `a_sum` of row m of a (wanted where B_SHIFTED), `b_sum` of row n of b (where
/// A_SHIFTED).
int integer_shifted(int sum, int a_sum, int b_sum, uint m, uint n) {
#if A_SHIFTED
  sum -= a_shift_of(m) * b_sum;
#endif
#if B_SHIFTED
  sum -= b_shift_of(n) * (a_sum - int(TERMS) * a_shift_of(m));
#endif
  return sum;
}
