// y[row] = sum over k of x[row][k], signed bytes of `quads` words a row. One row an invocation.

#include "integer_dot.glsl"

void main() {
  const uint row = tv_group() * LOCAL_X + gl_LocalInvocationID.x;
  if (row >= rows) return;
  int sum = 0;
  for (uint q = 0u; q < quads; q++) {
    sum += integer_dot(integer_word(uint64_t(x_ptr), row * quads + q) ^ X_FLIP, 0x01010101u);
  }
  y_raw_store(row, sum);
}
