// A pass as in fft_pass.comp for any `radix` that divides n; with radix = n the transform by its
// definition. Sums run in order, 32 at a time. One element an invocation.

#include "fft.glsl"
#include "fft_line.glsl"

void main() {
  const uint id = tv_group() * LOCAL_X + gl_LocalInvocationID.x;
  if (id >= elements) return;
  const uint line = id / inner, in_ = id - line * inner;
  const uint o = line / n, i = line - o * n;
  const uint k = i % done, block = i / (done * radix), p = i / done - block * radix;
  const uint apart = n / radix, first = block * done + k;
  const uint step_ = k * (apart / done) + p * apart;  // below n
  vec2 total = vec2(0.0), sum = vec2(0.0);
  uint turn = 0u;
  for (uint q = 0u; q < radix; ++q) {
    sum += tv_cmul(tv_read(o, first + q * apart, in_), tv_root(turn));
    turn += step_;
    if (turn >= n) turn -= n;
    if ((q & 31u) == 31u) {
      total += sum;
      sum = vec2(0.0);
    }
  }
  tv_write(o, i, in_, total + sum);
}
