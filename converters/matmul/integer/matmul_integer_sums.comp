// y[row] = sum over k of x[row][k], signed bytes of `quads` words a row. IN_RUNS: as
// matmul_integer_pack.comp orders them. One row an invocation.

#include "integer_dot.glsl"

#if IN_RUNS
#define WORD(row, q) (((row / 16u * (quads / 4u) + q / 4u) * 16u + row % 16u) * 4u + q % 4u)
#else
#define WORD(row, q) (row * quads + q)
#endif

void main() {
  const uint row = tv_group() * LOCAL_X + gl_LocalInvocationID.x;
  if (row >= rows) return;
  int sum = 0;
  for (uint q = 0u; q < quads; q++) {
    sum += integer_dot(integer_word(uint64_t(x_ptr), WORD(row, q)) ^ X_FLIP, 0x01010101u);
  }
  y_raw_store(row, sum);
}
