// Zero points of the operands of tv::matmul_integer: one for each of their rows, <operand>_zero_row
// apart, or (0) one of all. A_ZERO, B_ZERO: whether there are any.

int a_zero_of(uint m) {
#if A_ZERO
  return int(a_zero_raw(m * a_zero_row));
#else
  return 0;
#endif
}

int b_zero_of(uint n) {
#if B_ZERO
  return int(b_zero_raw(n * b_zero_row));
#else
  return 0;
#endif
}
