// The pointwise parts of Bluestein's transform (1970) of n elements as a convolution of `size`, a
// power of two >= 2 n - 1. c: exp(-pi i k^2 / n), lines as in fft_line.glsl.
//
// STAGE 0: y[k] = the conjugates of c, k counted from either end, divided by size. 1: y = x · c,
// then zeros. 2: y = x · f, f one line. 3: y = x · c, cut off at n. A backward transform is the
// conjugate of a forward one of conjugates. One complex number an invocation.

#include "fft_line.glsl"

vec2 cmul(vec2 a, vec2 b) { return vec2(fma(a.x, b.x, -a.y * b.y), fma(a.x, b.y, a.y * b.x)); }
#if STAGE != 2
vec2 chirp(uint k) { return vec2(c_load(2u * k), c_load(2u * k + 1u)); }
#endif
vec2 turned(vec2 v) { return FORWARD != 0 ? v : vec2(v.x, -v.y); }

void main() {
  const uint id = tv_group() * LOCAL_X + gl_LocalInvocationID.x;
  if (id >= elements) return;
  const uint line = id / inner, in_ = id - line * inner, o = line / size, k = line - o * size;
#if STAGE == 0
  const uint d = min(k, size - k);
  tv_write(0u, k, 0u, d < n ? chirp(d) * vec2(1.0, -1.0) * tv_div(1.0, float(size)) : vec2(0.0));
#elif STAGE == 1
  tv_write(o, k, in_, k < n ? cmul(turned(tv_read(o, k, in_)), chirp(k)) : vec2(0.0));
#elif STAGE == 2
  tv_write(o, k, in_, cmul(tv_read(o, k, in_), vec2(f_load(2u * k), f_load(2u * k + 1u))));
#else
  if (k < n) tv_write(o, k, in_, turned(cmul(tv_read(o, k, in_), chirp(k))));
#endif
}
