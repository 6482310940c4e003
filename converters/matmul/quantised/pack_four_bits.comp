// The elements of x, of int8 and from -8 to 7, less -8 in 4 bits each: y[i] has element 2 i in its
// low half and 2 i + 1 above. HAS_ZERO: of zero points, too, in a byte each. What is beyond 4 bits
// is reported. A byte of y an invocation; there are no more zero points.

uint less_least(int value) {
  if (value < -8 || value > 7) tv_bad_operand = kTvNotFourBits + 1u;
  return uint(value + 8) & 0xfu;
}

void main() {
  const uint i = tv_group() * LOCAL_X + gl_LocalInvocationID.x;
  if (i >= total) return;
  const uint low = less_least(int(x_raw(2u * i))), high = less_least(int(x_raw(2u * i + 1u)));
  y_raw_store(i, int(low | high << 4));
#if HAS_ZERO
  if (i < zeros) shifted_raw_store(i, int(less_least(int(zero_raw(i)))));
#endif
}
