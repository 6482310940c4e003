// Elementary functions with stated errors; GLSL's own promise little.
//
// "n ULP" is the largest error; tests/accuracy measures it. Infinities and NaN follow IEEE 754.
// Denormal results are right where the device keeps denormals, as the runtime asks it to
// (runtime/vulkan/float_controls.h); denormal arguments whose results are normal numbers are taken
// apart as integers, so that they are right everywhere. Polynomials: minimax fits, evaluated by
// Horner's rule.

#include "arith.glsl"

/// e^r for |r| <= 0.36.
float tv_exp_core(float r) {
  float p = 1.37805939e-3;
  p = fma(p, r, 8.37312452e-3);
  p = fma(p, r, 4.16695364e-2);
  p = fma(p, r, 1.66664720e-1);
  p = fma(p, r, 4.99999851e-1);
  p = fma(p, r, 1.0);
  return fma(p, r, 1.0);
}

/// e^(x + low) for a correction |low| << |x|. 1.5 ULP.
float tv_exp_sum(float x, float low) {
  const float k = roundEven(clamp(x, -104.0, 89.0) * 1.44269502);
  precise float r = (x - k * 0.693145752) - k * 1.42860677e-6;  // the first product is exact
  float y = tv_ldexp(tv_exp_core(r + low), int(k));
  y = x > 88.8 ? TV_INF : y;
  y = x < -104.0 ? 0.0 : y;
  return tv_isnan(x) ? x : y;
}

/// 1.5 ULP.
float tv_exp(float x) { return tv_exp_sum(x, 0.0); }

/// 1.5 ULP.
float tv_exp2(float x) {
  const float k = roundEven(clamp(x, -151.0, 129.0));
  const float r = clamp(x - k, -0.5, 0.5);
  float p = 0.000154762994;
  p = fma(p, r, 0.00134002697);
  p = fma(p, r, 0.00961800385);
  p = fma(p, r, 0.055503279);
  p = fma(p, r, 0.240226507);
  p = fma(p, r, 0.693147182);
  float y = tv_ldexp(fma(p, r, 1.0), int(k));
  y = x >= 128.0 ? TV_INF : y;
  y = x < -150.0 ? 0.0 : y;
  return tv_isnan(x) ? x : y;
}

/// e^x - 1. 2 ULP.
float tv_expm1(float x) {
  const float k = roundEven(clamp(x, -26.0, 89.0) * 1.44269502);
  precise float r = (clamp(x, -26.0, 89.0) - k * 0.693145752) - k * 1.42860677e-6;
  float q = 0.000199141592;
  q = fma(q, r, 0.00139410002);
  q = fma(q, r, 0.00833327323);
  q = fma(q, r, 0.041666355);
  q = fma(q, r, 0.166666672);
  q = fma(q, r, 0.5);
  const float p = fma(q * r, r, r);
  // 2^k p + (2^k - 1), in halves so that 2^128 does not appear.
  const float half_scale = tv_ldexp(0.5, int(k));
  float y = 2.0 * fma(half_scale, p, half_scale - 0.5);
  y = k == 0.0 ? p : y;
  y = x > 88.8 ? TV_INF : y;
  return tv_isnan(x) || x == 0.0 ? x : y;
}

/// log(1 + m) for -0.25 <= m <= 0.5, plus k · log 2.
float tv_log_core(float m, float k) {
  float p = 0.0373193063;
  p = fma(p, m, -0.0912681445);
  p = fma(p, m, 0.117554151);
  p = fma(p, m, -0.12750037);
  p = fma(p, m, 0.142720431);
  p = fma(p, m, -0.16652292);
  p = fma(p, m, 0.199996233);
  p = fma(p, m, -0.250002891);
  p = fma(p, m, 0.333333433);
  p = fma(p, m, -0.499999985);
  precise float low = fma(p * m, m, m) + k * 1.42860677e-6;
  precise float sum = k * 0.693145752 + low;
  return sum;
}

/// x as (1 + m) · 2^k with -0.25 <= m < 0.5, for finite x > 0.
void tv_log_reduce(float x, out float m, out float k) {
  const int given = floatBitsToInt(x);
  const bool tiny = given < 0x800000;
  const int bits = tiny ? floatBitsToInt(float(given)) : given;  // x · 2^149
  const int e = (bits - 0x3f400000) >> 23;
  m = intBitsToFloat(bits - (e << 23)) - 1.0;
  k = float(tiny ? e - 149 : e);
}

/// What log-like functions give outside (0, inf).
float tv_log_special(float x, float y) {
  const uint bits = floatBitsToUint(x);
  y = (bits & 0x7fffffffu) == 0u ? -TV_INF : bits > 0x80000000u ? TV_NAN : y;
  return tv_isnan(x) || x == TV_INF ? x : y;
}

/// 1 ULP.
float tv_log(float x) {
  float m, k;
  tv_log_reduce(x, m, k);
  return tv_log_special(x, tv_log_core(m, k));
}

/// 3 ULP.
float tv_log2(float x) {
  float m, k;
  tv_log_reduce(x, m, k);
  const float l = tv_log_core(m, 0.0);
  return tv_log_special(x, k + l * 1.44269502);
}

/// 4 ULP.
float tv_log10(float x) {
  float m, k;
  tv_log_reduce(x, m, k);
  const float l = tv_log_core(m, 0.0);
  return tv_log_special(x, fma(k, 0.301029987, l * 0.434294492));
}

/// log(1 + x). 2 ULP.
float tv_log1p(float x) {
  const float u = x + 1.0;
  const int e = (floatBitsToInt(u) - 0x3f400000) >> 23;
  const float scale = intBitsToFloat((127 - clamp(e, -100, 126)) << 23);
  // m = (1 + x) / 2^e - 1 from x itself, as 1 + x has lost its low bits.
  const float m = fma(x, scale, scale - 1.0);
  float y = tv_log_core(m, float(e));
  y = u >= 8.5e37 ? tv_log(x) : y;
  y = x == -1.0 ? -TV_INF : y;
  y = x < -1.0 ? TV_NAN : y;
  return tv_isnan(x) || x == TV_INF || x == 0.0 ? x : y;
}

/// 3 ULP.
float tv_tanh(float x) {
  const float a = abs(x), s = x * x;
  float p = 0.00206466508;
  p = fma(p, s, -0.00809196848);
  p = fma(p, s, 0.0216663461);
  p = fma(p, s, -0.0539405644);
  p = fma(p, s, 0.133331582);
  p = fma(p, s, -0.333333284);
  const float small = fma(p * s, x, x);
  const float large = tv_copysign(1.0 - 2.0 / (tv_exp(2.0 * min(a, 20.0)) + 1.0), x);
  return tv_isnan(x) || x == 0.0 ? x : a < 0.65 ? small : large;
}

/// 1 / (1 + e^-x). 5 ULP, as GLSL's division has 2.5.
float tv_sigmoid(float x) { return 1.0 / (1.0 + tv_exp(-x)); }

/// x / (1 + e^-x). 6 ULP.
float tv_silu(float x) {
  const float e = 1.0 + tv_exp(-x);
  // Beyond 2^126 GLSL promises nothing of a division.
  const float scale = e > 4.2535296e37 ? 0.25 : 1.0;
  precise float n = x * scale, d = e * scale;
  return n / d;
}

/// 3 ULP.
float tv_sinh(float x) {
  const float a = abs(x);
  const float e = tv_expm1(a);
  const float h = tv_exp(0.5 * a);
  precise float half_h = 0.5 * h, large = half_h * h;  // in this order: h * h overflows
  return tv_copysign(a > 88.0 ? large : 0.5 * (e + tv_div(e, e + 1.0)), x);
}

/// 3 ULP.
float tv_cosh(float x) {
  const float a = abs(x);
  const float e = tv_exp(a), h = tv_exp(0.5 * a);
  precise float half_h = 0.5 * h, large = half_h * h;
  return a > 88.0 ? large : 0.5 * e + tv_div(0.5, e);
}

#include "trig.glsl"
#include "special.glsl"
