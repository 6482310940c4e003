// Sums of rows of signed bytes whose chunks of 16 pass through the invocations of a workgroup: each
// adds up its own, and puts that into shared memory, [row][part of the row].

#include "integer_dot.glsl"

int byte_sum(uvec4 c) {
  int sum = 0;
  [[unroll]] for (uint w = 0u; w < 4u; w++) sum += integer_dot(c[w], 0x01010101u);
  return sum;
}

// Adds up the parts of `rows` rows: the sum of a row is in its first then. Between barriers.
#define ADD_PARTS(name, rows, parts)                                           \
  for (uint row = gl_LocalInvocationID.x; row < (rows); row += LOCAL_X) {      \
    int sum = 0;                                                               \
    for (uint p = 0u; p < (parts); p++) sum += name[row * (parts) + p];        \
    name[row * (parts)] = sum;                                                 \
  }
