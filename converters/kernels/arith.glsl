// Division, remainder, comparison and rounding as torch defines them.

bool tv_isnan(float x) { return (floatBitsToUint(x) & 0x7fffffffu) > 0x7f800000u; }
bool tv_isinf(float x) { return (floatBitsToUint(x) & 0x7fffffffu) == 0x7f800000u; }
bool tv_isfinite(float x) { return (floatBitsToUint(x) & 0x7f800000u) != 0x7f800000u; }

#define TV_NAN uintBitsToFloat(0x7fc00000u)
#define TV_INF uintBitsToFloat(0x7f800000u)

/// `magnitude` with the sign of `from`.
float tv_copysign(float magnitude, float from) {
  return uintBitsToFloat((floatBitsToUint(magnitude) & 0x7fffffffu) |
                         (floatBitsToUint(from) & 0x80000000u));
}

/// NaN where either is NaN, as torch's maximum and minimum.
float tv_max(float a, float b) { return tv_isnan(a) || a > b ? a : b; }
float tv_min(float a, float b) { return tv_isnan(a) || a < b ? a : b; }
float tv_sign(float x) { return x > 0.0 ? 1.0 : x < 0.0 ? -1.0 : 0.0; }

/// Within 2.5 ULP where GLSL promises it only for |b| <= 2^126.
float tv_div(float a, float b) {
  const float scale = abs(b) > 4.2535296e37 && !tv_isinf(b) ? 0.25 : 1.0;
  return a * scale / (b * scale);
}

/// Exact remainder with the sign of a: long division, 22 bits of quotient a round.
float tv_fmod(float a, float b) {
  float r = abs(a);
  const float d = abs(b);
  for (int round = 0; round < 13 && r >= d && d > 0.0 && tv_isfinite(r); ++round) {
    const int shift = int(floatBitsToUint(r) >> 23) - int(floatBitsToUint(d) >> 23) - 22;
    // Two factors: 2^shift alone may be out of range.
    const int s = max(shift, 0);
    const float t = d * uintBitsToFloat(uint(127 + (s >> 1)) << 23) *
                    uintBitsToFloat(uint(127 + s - (s >> 1)) << 23);
    const float q = trunc(r / t);
    precise float rest = fma(-q, t, r);
    rest = rest < 0.0 ? rest + t : rest;
    r = rest >= t ? rest - t : rest;
  }
  const bool bad = tv_isnan(a) || tv_isnan(b) || tv_isinf(a) || d == 0.0;
  return bad ? TV_NAN : tv_copysign(r, a);
}

/// Remainder with the sign of b.
float tv_remainder(float a, float b) {
  const float r = tv_fmod(a, b);
  return r != 0.0 && (r < 0.0) != (b < 0.0) ? r + b : r;
}

/// floor(a / b), from the exact remainder.
float tv_div_floor(float a, float b) {
  if (b == 0.0 || tv_isinf(a)) return tv_div(a, b);
  const float r = tv_fmod(a, b);
  float q = tv_div(a - r, b);
  q = r != 0.0 && (b < 0.0) != (r < 0.0) ? q - 1.0 : q;
  const float down = floor(q);
  const float whole = q - down > 0.5 ? down + 1.0 : down;
  return q == 0.0 ? tv_copysign(0.0, tv_div(a, b)) : whole;
}

/// a + w · (b - a), from the nearer end.
float tv_lerp(float a, float b, float w) {
  return abs(w) < 0.5 ? a + w * (b - a) : b - (b - a) * (1.0 - w);
}

// Integers. Division by zero, an error in eager mode, gives 0 here.
int tv_div_trunc(int a, int b) { return b == 0 ? 0 : b == -1 ? -a : a / b; }
int tv_fmod(int a, int b) { return a - tv_div_trunc(a, b) * b; }
int tv_remainder(int a, int b) {
  const int r = tv_fmod(a, b);
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}
int tv_div_floor(int a, int b) {
  const int q = tv_div_trunc(a, b);
  return q * b != a && (a < 0) != (b < 0) ? q - 1 : q;
}

int64_t tv_div_trunc(int64_t a, int64_t b) { return b == 0L ? 0L : b == -1L ? -a : a / b; }
int64_t tv_fmod(int64_t a, int64_t b) { return a - tv_div_trunc(a, b) * b; }
int64_t tv_remainder(int64_t a, int64_t b) {
  const int64_t r = tv_fmod(a, b);
  return r != 0L && (r < 0L) != (b < 0L) ? r + b : r;
}
int64_t tv_div_floor(int64_t a, int64_t b) {
  const int64_t q = tv_div_trunc(a, b);
  return q * b != a && (a < 0L) != (b < 0L) ? q - 1L : q;
}
