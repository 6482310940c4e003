// y = x · cos + r · sin over the first ROTATED elements of a row of COLS, where r is -x[half:]
// before x[:half] of them; what is behind them stays. Products are rounded before they are added,
// as in eager mode.

#if NORM
NORM_FUNCTION
float inverse_;
float x_normed(uint at, uint d) {
  float y;
  NORMED_x(float(x_raw(at + d * x_d)) * inverse_, d, y)
  return y;
}
#if PAIR
float x2_normed(uint at, uint d) {
  float y;
  NORMED_x2(float(x2_raw(at + d * x2_d)) * inverse_, d, y)
  return y;
}
#endif
#define ELEMENT(x, at, d) x##_normed(at, d)
#else
#define ELEMENT(x, at, d) float(x##_raw(at + (d) * x##_d))
#endif

/// Element d of a row: the one half a rotated part away is its other one.
uint rotary_other(uint d) { return d < ROTATED / 2u ? d + ROTATED / 2u : d - ROTATED / 2u; }

float rotated(float x, float other, float c, float s, bool first_half) {
  precise float a = x * c;
  precise float b = (first_half ? -other : other) * s;
  precise float sum = a + b;
  return sum;
}

// Element d of the row of `x` that begins at `at`, by cos and sin from cos_from and sin_from on.
#define ROTARY(x, at, cos_from, sin_from, d)                                            \
  (d >= ROTATED                                                                         \
       ? ELEMENT(x, at, d)                                                              \
       : rotated(ELEMENT(x, at, d), ELEMENT(x, at, rotary_other(d)),                    \
                 float(cos_raw(cos_from + d * cos_d)), float(sin_raw(sin_from + d * sin_d)), \
                 d < ROTATED / 2u))
