// Complex numbers as pairs, and the discrete Fourier transforms of a few of them, for the fft
// kernels. The kernel's operand w holds exp(-2 pi i k / n) for k < n; FORWARD says the sign of the
// exponent.

vec2 tv_cmul(vec2 a, vec2 b) {
  return vec2(fma(a.x, b.x, -a.y * b.y), fma(a.x, b.y, a.y * b.x));
}

/// exp(-+ 2 pi i k / n) for k < n.
vec2 tv_root(uint k) {
#if FORWARD
  return vec2(w_load(2u * k), w_load(2u * k + 1u));
#else
  return vec2(w_load(2u * k), -w_load(2u * k + 1u));
#endif
}

/// Times -+ i.
vec2 tv_quarter(vec2 a) {
#if FORWARD
  return vec2(a.y, -a.x);
#else
  return vec2(-a.y, a.x);
#endif
}

void tv_butterfly(inout vec2 v[2]) {
  const vec2 a = v[0];
  v[0] = a + v[1];
  v[1] = a - v[1];
}

void tv_butterfly(inout vec2 v[4]) {
  const vec2 a = v[0] + v[2], b = v[0] - v[2], c = v[1] + v[3], d = tv_quarter(v[1] - v[3]);
  v[0] = a + c;
  v[1] = b + d;
  v[2] = a - c;
  v[3] = b - d;
}

// Odd sizes by their definition; n is a multiple of R.
#define TV_BUTTERFLY(R)                                                     \
  void tv_butterfly(inout vec2 v[R]) {                                      \
    vec2 roots[R], sums[R];                                                 \
    for (uint k = 1u; k < uint(R); ++k) roots[k] = tv_root(k * (n / R));    \
    for (uint p = 0u; p < uint(R); ++p) {                                   \
      vec2 sum = v[0];                                                      \
      for (uint q = 1u; q < uint(R); ++q) {                                 \
        const uint turn = (p * q) % uint(R);                                \
        sum += turn == 0u ? v[q] : tv_cmul(v[q], roots[turn]);              \
      }                                                                     \
      sums[p] = sum;                                                        \
    }                                                                       \
    v = sums;                                                               \
  }
TV_BUTTERFLY(3)
TV_BUTTERFLY(5)
TV_BUTTERFLY(7)
TV_BUTTERFLY(11)
TV_BUTTERFLY(13)
