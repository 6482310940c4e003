// The gamma function's logarithm and derivatives, Hurwitz's zeta, scaled erfc, the normal
// distribution's quantile. Polynomials are our own minimax-like fits (Chebyshev nodes, 30-digit
// references). Errors are in units in the last place away from zeros of the function, and as many
// units of 1 near them.

#include "math.glsl"

const float kTvPi = 3.14159274;

/// sin(pi x) and cos(pi x): the reduction is exact.
float tv_sin_pi(float x) {
  const float r = x - 2.0 * roundEven(0.5 * x);  // [-1, 1]
  return tv_sin(kTvPi * (abs(r) > 0.5 ? tv_copysign(1.0, r) - r : r));
}
float tv_tan_pi(float x) {
  const float r = x - roundEven(x);  // [-0.5, 0.5]
  return abs(r) == 0.5 ? TV_INF : tv_tan(kTvPi * r);
}

/// lgamma(x) / (x - 1) for x = 1 + t / 2.
float tv_lgamma_near_1(float t) {
  float p = 1.79599647e-05;
  p = fma(p, t, -4.29745487e-05);
  p = fma(p, t, 2.96679373e-05);
  p = fma(p, t, -5.05795069e-05);
  p = fma(p, t, 0.000199769216);
  p = fma(p, t, -0.000462490949);
  p = fma(p, t, 0.00098115101);
  p = fma(p, t, -0.0022409244);
  p = fma(p, t, 0.00529789925);
  p = fma(p, t, -0.0129632354);
  p = fma(p, t, 0.0338227451);
  p = fma(p, t, -0.100171305);
  p = fma(p, t, 0.411233515);
  return fma(p, t, -0.577215672);
}

/// lgamma(x) / (x - 2) for x = 2 + t / 2.
float tv_lgamma_near_2(float t) {
  float p = 2.35807931e-07;
  p = fma(p, t, -9.9135832e-07);
  p = fma(p, t, 3.92524771e-06);
  p = fma(p, t, -1.8529292e-05);
  p = fma(p, t, 9.03613036e-05);
  p = fma(p, t, -0.000461635733);
  p = fma(p, t, 0.00257259328);
  p = fma(p, t, -0.01683807);
  p = fma(p, t, 0.161233515);
  return fma(p, t, 0.422784328);
}

/// lgamma(x) / (x - 2) for x = 4 + 1.5 t.
float tv_lgamma_middle(float t) {
  float p = 1.10810752e-05;
  p = fma(p, t, -3.04279565e-05);
  p = fma(p, t, 6.55754411e-05);
  p = fma(p, t, -0.000215770124);
  p = fma(p, t, 0.000738152128);
  p = fma(p, t, -0.00256557111);
  p = fma(p, t, 0.00972583145);
  p = fma(p, t, -0.0429830849);
  p = fma(p, t, 0.270178497);
  return fma(p, t, 0.895879745);
}

/// (1 + 2 a) erfcx(a) for (a - 4) / (a + 4) = 0.98 t - 0.02.
float tv_erfcx_fit(float t) {
  float p = -7.95636242e-06;
  p = fma(p, t, -4.79536538e-06);
  p = fma(p, t, 0.000119890166);
  p = fma(p, t, -0.000204366719);
  p = fma(p, t, -0.000577498984);
  p = fma(p, t, 0.00432895264);
  p = fma(p, t, -0.0145636173);
  p = fma(p, t, 0.03457506);
  p = fma(p, t, -0.0635310784);
  p = fma(p, t, 0.0922117159);
  p = fma(p, t, -0.102217734);
  p = fma(p, t, 0.0720631629);
  p = fma(p, t, 0.0106063476);
  p = fma(p, t, -0.13734825);
  return fma(p, t, 1.23579311);
}

/// ndtri(y) / (2 y - 1) for sqrt(-log(4 y (1 - y))) = 6.9 + 3.5 t.
float tv_ndtri_tail(float t) {
  float p = -0.00068362843;
  p = fma(p, t, 0.000787813391);
  p = fma(p, t, 0.000282294932);
  p = fma(p, t, 0.000396726013);
  p = fma(p, t, -0.00186763308);
  p = fma(p, t, 0.00167985773);
  p = fma(p, t, 0.000346685614);
  p = fma(p, t, -0.00893587153);
  p = fma(p, t, 4.99279404);
  return fma(p, t, 9.57161713);
}

/// log(gamma(x)) for x > 0: near its zeros by factors, else by Stirling's series.
float tv_lgamma_positive(float x) {
  if (x < 0.5) return x * tv_lgamma_near_1(2.0 * x) - tv_log(x);  // lgamma(x + 1) - log(x)
  if (x == 1.0) return 0.0;
  if (x < 1.5) return (x - 1.0) * tv_lgamma_near_1(2.0 * (x - 1.0));
  if (x < 2.5) return (x - 2.0) * tv_lgamma_near_2(2.0 * (x - 2.0));
  if (x < 5.5) return (x - 2.0) * tv_lgamma_middle((x - 4.0) * 0.666666687);
  const float z = 1.0 / x, s = z * z;
  const float rest = z * fma(s, fma(s, 7.93650793e-4, -2.77777785e-3), 8.33333358e-2);
  const float l = tv_log(x) - 1.0;
  return tv_isinf(x) ? x : fma(x - 0.5, l, 0.418938547 + rest);
}

/// log(|gamma(x)|). 4 ULP for x > 0.
float tv_lgamma(float x) {
  if (tv_isnan(x)) return x;
  if (tv_isinf(x) || (x <= 0.0 && x == floor(x))) return TV_INF;
  if (x > 0.0) return tv_lgamma_positive(x);
  // Euler's reflection.
  if (x > -1e-8) return -tv_log(-x);
  return 1.14472985 - tv_log(abs(tv_sin_pi(x) * x)) - tv_lgamma_positive(-x);
}

/// The derivative of log(gamma(x)): recurrence up to 10, then its asymptotic series.
float tv_digamma(float x) {
  if (tv_isnan(x)) return x;
  if (x == 0.0) return -tv_copysign(TV_INF, x);
  if (x < 0.0 && x == floor(x)) return TV_NAN;
  float y = x, sum = 0.0;
  if (x < 0.0) {
    sum = -tv_div(kTvPi, tv_tan_pi(x));
    y = 1.0 - x;
  }
  for (int k = 0; k < 10 && y < 10.0; ++k) {
    sum -= tv_div(1.0, y);
    y += 1.0;
  }
  if (y == 10.0) return sum + 2.25175261;
  if (tv_isinf(y)) return y;
  const float z = tv_div(1.0, y), s = z * z;
  float p = -4.16666660e-3;
  p = fma(p, s, 3.96825397e-3);
  p = fma(p, s, -8.33333377e-3);
  p = fma(p, s, 8.33333358e-2);
  return tv_log(y) - 0.5 * z - p * s + sum;
}

/// The sum of (q + k)^-s over k >= 0 for q > 0: ten terms, then Euler and Maclaurin's formula.
float tv_zeta_positive(float s, float q) {
  float sum = 0.0, w = q;
  for (int k = 0; k < 10; ++k) {
    sum += tv_pow(w, -s);
    w += 1.0;
  }
  const float last = tv_pow(w, -s), z = 1.0 / w;
  if (tv_isinf(sum)) return sum;
  if (last == 0.0) return sum + tv_div(tv_pow(w, 1.0 - s), s - 1.0);
  // Terms B_2k / (2k)! s (s + 1) … (s + 2k - 2) w^(-s - 2k + 1).
  float term = s * z * last, rest = term * 8.33333358e-2;
  term *= (s + 1.0) * (s + 2.0) * z * z;
  rest = fma(term, -1.38888892e-3, rest);
  term *= (s + 3.0) * (s + 4.0) * z * z;
  rest = fma(term, 3.30687835e-5, rest);
  term *= (s + 5.0) * (s + 6.0) * z * z;
  rest = fma(term, -8.26719573e-7, rest);
  return sum + (tv_div(w * last, s - 1.0) + 0.5 * last + rest);
}

/// Hurwitz's zeta(s, q). Below 0, for whole s, the terms on either side of it are two such sums.
float tv_zeta(float s, float q) {
  // In eager's order, whatever the other argument is.
  if (s == 1.0) return TV_INF;
  if (s < 1.0) return TV_NAN;
  if (q <= 0.0 && q == floor(q)) return TV_INF;
  // At infinity as eager's, whose sums are NaN there.
  if (tv_isnan(s) || tv_isnan(q) || q == TV_INF) return TV_NAN;
  if (s == TV_INF) return q == 1.0 ? 1.0 : q < 1.0 ? TV_INF : TV_NAN;
  if (q > 0.0) return tv_zeta_positive(s, q);
  if (s != floor(s)) return TV_NAN;
  const float below = tv_zeta_positive(s, ceil(q) - q) - tv_zeta_positive(s, 1.0 - q);
  return tv_zeta_positive(s, q - floor(q)) + (mod(s, 2.0) == 0.0 ? below : -below);
}

/// The second derivative of log(gamma(x)), by reflection below 0.5.
float tv_trigamma(float x) {
  if (tv_isinf(x)) return x > 0.0 ? 0.0 : TV_NAN;
  if (x >= 0.5 || tv_isnan(x)) return tv_zeta(2.0, x);
  const float sine = tv_sin_pi(x);
  return tv_div(9.86960411, sine * sine) - tv_zeta_positive(2.0, 1.0 - x);
}

/// e^(x^2) erfc(x).
float tv_erfcx(float x) {
  if (tv_isnan(x)) return x;
  const float a = abs(x), t = (min(a, 190.0) - 4.0) / (min(a, 190.0) + 4.0);
  const float y = a < 190.0 ? tv_erfcx_fit((t + 0.02) * 1.02040815) / fma(2.0, a, 1.0)
                            : tv_div(0.564189613, a) * (1.0 - 0.5 / (a * a));
  if (x >= 0.0) return y;
  precise float square = a * a;
  const float grown = a > 10.0 ? TV_INF : tv_exp_sum(square, tv_product_error(a, a, square));
  return 2.0 * grown - y;
}

/// The logarithm of the probability that a normal variable is below x. Below 0 that probability is
/// e^(-x^2 / 2) erfcx(|x| / sqrt(2)) / 2, above it 1 minus that. 8 ULP.
float tv_log_ndtr(float x) {
  if (tv_isnan(x)) return x;
  const float a = abs(x), half_erfcx = 0.5 * tv_erfcx(0.707106769 * a);
  precise float half_a = 0.5 * a, power = half_a * a;  // in this order: a * a overflows
  if (x < 0.0) return tv_log(half_erfcx) - power;
  const float low = a < 20.0 ? -tv_product_error(half_a, a, power) : 0.0;
  return tv_log1p(-half_erfcx * tv_exp_sum(-power, low));
}

/// The x below which a normal variable lies with probability y. Giles's polynomials of erfinv
/// (2011) in log(4 y (1 - y)), another one beyond their range.
float tv_ndtri(float y) {
  if (tv_isnan(y) || y < 0.0 || y > 1.0) return TV_NAN;
  if (y == 0.0 || y == 1.0) return y == 0.0 ? -TV_INF : TV_INF;
  const float x = 2.0 * y - 1.0;
  const float w = -(tv_log(4.0 * y) + tv_log1p(-y));
  if (w > 11.56) return x * tv_ndtri_tail((sqrt(w) - 6.9) * 0.285714298);
  return 1.41421354 * x * tv_erfinv_part(w);
}
