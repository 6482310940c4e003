// One pass of Stockham's autosort transform (Van Loan 1992, 1.7): butterflies of RADIX elements
// n / RADIX apart, turned by the roots of the `done` elements that earlier passes joined.
//
// Lines as in fft_line.glsl; RADIX: 2, 3, 4, 5, 7, 11, 13. One butterfly an invocation.

#include "fft.glsl"
#include "fft_line.glsl"

void main() {
  const uint id = tv_group() * LOCAL_X + gl_LocalInvocationID.x;
  if (id >= butterflies) return;
  const uint apart = n / RADIX, line = id / inner, in_ = id - line * inner;
  const uint o = line / apart, j = line - o * apart, k = j % done;
  const uint turn = k * (apart / done);
  vec2 v[RADIX];
  for (uint q = 0u; q < RADIX; ++q) v[q] = tv_read(o, j + q * apart, in_);
  for (uint q = 1u; q < RADIX; ++q) v[q] = tv_cmul(v[q], tv_root(q * turn));
  tv_butterfly(v);
  const uint first = (j - k) * RADIX + k;
  for (uint q = 0u; q < RADIX; ++q) tv_write(o, first + q * done, in_, v[q]);
}
