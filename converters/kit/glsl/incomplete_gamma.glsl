// The regularised incomplete gamma functions P(a, x) and Q(a, x) = 1 - P. Near x = a and for large
// a Temme's uniform expansion (1979; DLMF 8.12), else the power series or Legendre's continued
// fraction, as Cephes chooses. Errors near 1e-6 of the result, absolute ones below 5e-7. And the
// derivative of gamma variates by their shape, by PyTorch's formulas (ATen's Distributions.h) in
// forms that keep float32's digits and do not overflow.

#include "gamma.glsl"

const int kTvIncompleteTerms = 200;

/// mu - log(1 + mu) for mu >= -1.
float tv_log1p_rest(float mu) {
  if (abs(mu) > 0.3) return mu - tv_log1p(mu);
  float p = 0.0666666701;
  for (int k = 14; k >= 2; --k) p = fma(-p, mu, 1.0 / float(k));
  return mu * mu * p;
}

/// x^a e^-x / gamma(a + 1).
float tv_incomplete_factor(float a, float x) {
  if (a < 3.0) {
    const float small = tv_exp(-x);  // the other factor may be infinite where this is 0
    return small == 0.0 ? 0.0 : small * tv_exp(fma(a, tv_log(x), -tv_lgamma_positive(a + 1.0)));
  }
  const float z = 1.0 / a;  // gamma(a + 1) = sqrt(2 pi a) (a / e)^a e^rest
  const float rest = z * fma(z * z, fma(z * z, 7.93650793e-4, -2.77777785e-3), 8.33333358e-2);
  const float mu = tv_div(x - a, a);
  const float power = mu < -0.3 ? fma(a, tv_log(tv_div(x, a)), a - x) : -a * tv_log1p_rest(mu);
  return tv_exp(power - rest) / sqrt(6.28318548 * a);
}

float tv_incomplete_series(float a, float x) {
  float term = 1.0, sum = 1.0, n = a;
  for (int k = 0; k < kTvIncompleteTerms && term > 3e-8 * sum; ++k) {
    n += 1.0;
    term *= x / n;
    sum += term;
  }
  return tv_incomplete_factor(a, x) * sum;
}

/// Q by the series of 1 - P around x = 0, for x <= 1.1.
float tv_incomplete_small(float a, float x) {
  float factor = 1.0, sum = 0.0;
  for (int n = 1; n < 20; ++n) {
    factor *= -x / float(n);
    sum += factor / (a + float(n));
  }
  const float power = fma(a, tv_log(x), -tv_lgamma_positive(a + 1.0));
  return -tv_expm1(power) - a * tv_exp(power) * sum;
}

/// Q by the continued fraction, for x >= a.
float tv_incomplete_fraction(float a, float x) {
  const float factor = tv_incomplete_factor(a, x) * a;
  if (factor == 0.0) return 0.0;
  float y = 1.0 - a, z = x + y + 1.0, c = 0.0;
  float p2 = 1.0, q2 = x, p1 = x + 1.0, q1 = z * x, value = p1 / q1;
  for (int k = 0; k < kTvIncompleteTerms; ++k) {
    c += 1.0;
    y += 1.0;
    z += 2.0;
    const float p = p1 * z - p2 * y * c, q = q1 * z - q2 * y * c;
    p2 = p1;
    p1 = p;
    q2 = q1;
    q1 = q;
    if (q != 0.0) {
      const float next = p / q, change = abs(value - next);
      value = next;
      if (change <= 3e-8 * abs(next)) break;
    }
    if (abs(p) > 1e12) {
      p2 *= 1e-12;
      p1 *= 1e-12;
      q2 *= 1e-12;
      q1 *= 1e-12;
    }
  }
  return factor * value;
}

/// P (sign -1) or Q (sign 1) for a > 20 and x within 0.3 a of a.
float tv_incomplete_uniform(float a, float x, float sign_) {
  const float mu = tv_div(x - a, a), half_square = tv_log1p_rest(mu);
  const float eta = mu < 0.0 ? -sqrt(2.0 * half_square) : sqrt(2.0 * half_square), z = 1.0 / a;
  float c0 = -2.18544851e-6;
  c0 = fma(c0, eta, 3.91926318e-5);
  c0 = fma(c0, eta, -1.78755144e-4);
  c0 = fma(c0, eta, 3.52733686e-4);
  c0 = fma(c0, eta, 1.15740741e-3);
  c0 = fma(c0, eta, -1.48148148e-2);
  c0 = fma(c0, eta, 8.33333333e-2);
  c0 = fma(c0, eta, -3.33333333e-1);
  float c1 = 2.05761317e-4;
  c1 = fma(c1, eta, -9.90226337e-4);
  c1 = fma(c1, eta, 2.64550265e-3);
  c1 = fma(c1, eta, -3.47222222e-3);
  c1 = fma(c1, eta, -1.85185185e-3);
  const float c2 = fma(fma(7.71604938e-4, eta, -2.68132716e-3), eta, 4.1335979e-3);
  const float rest = fma(fma(fma(6.49434157e-4, z, c2), z, c1), z, c0);
  const float bell = tv_exp(-a * half_square) / sqrt(6.28318548 * a);
  return fma(sign_ * bell, rest, 0.5 * tv_erfc(sign_ * eta * sqrt(0.5 * a)));
}

bool tv_incomplete_is_near(float a, float x) { return a > 20.0 && abs(x - a) < 0.3 * a; }

float tv_igammac_inside(float a, float x) {
  if (tv_incomplete_is_near(a, x)) return tv_incomplete_uniform(a, x, 1.0);
  if (x > 1.1) {
    return x < a ? 1.0 - tv_incomplete_series(a, x) : tv_incomplete_fraction(a, x);
  }
  const bool most = x <= 0.5 ? tv_div(-0.4, tv_log(x)) < a : x * 1.1 < a;
  return most ? 1.0 - tv_incomplete_series(a, x) : tv_incomplete_small(a, x);
}

/// P(a, x).
float tv_igamma(float a, float x) {
  if (x < 0.0 || a < 0.0) return TV_NAN;
  if (a == 0.0) return x > 0.0 ? 1.0 : TV_NAN;
  if (x == 0.0) return 0.0;
  if (tv_isinf(a)) return tv_isinf(x) ? TV_NAN : 0.0;
  if (tv_isinf(x)) return 1.0;
  if (tv_isnan(a) || tv_isnan(x)) return TV_NAN;
  if (tv_incomplete_is_near(a, x)) return tv_incomplete_uniform(a, x, -1.0);
  if (x > 1.0 && x > a) return 1.0 - tv_igammac_inside(a, x);
  return tv_incomplete_series(a, x);
}

/// Q(a, x).
float tv_igammac(float a, float x) {
  if (x < 0.0 || a < 0.0) return TV_NAN;
  if (a == 0.0) return x > 0.0 ? 0.0 : TV_NAN;
  if (x == 0.0) return 1.0;
  if (tv_isinf(a)) return tv_isinf(x) ? TV_NAN : 1.0;
  if (tv_isinf(x)) return 0.0;
  if (tv_isnan(a) || tv_isnan(x)) return TV_NAN;
  return tv_igammac_inside(a, x);
}

/// -(dP/da) / (dP/dx) for x < 0.8, by P's power series. Its digamma(a) is digamma(a + 1) - 1 / a,
/// whose second part cancels term by term.
float tv_gamma_grad_small(float a, float x) {
  float term = 1.0, sum = 0.0, rest = 0.0;
  for (int k = 1; k <= 5; ++k) {
    const float n = a + float(k);
    term *= tv_div(-x, float(k));
    const float part = tv_div(term, n);
    sum += part;
    rest += tv_div(part * float(k), n);
  }
  const float y = (tv_digamma(a + 1.0) - tv_log(x)) * fma(a, sum, 1.0) - rest;
  const float grad = tv_div(x * tv_exp(x) * y, a);
  return tv_isnan(grad) ? 0.0 : grad;
}

/// The same for a > 8, by Rice's saddle point expansion.
float tv_gamma_grad_large(float a, float x) {
  const float z = tv_div(1.0, a), r = tv_div(x, a);
  if (fma(0.9, a, -x) <= 0.0 && fma(1.1, a, -x) >= 0.0) {
    const float p = fma(z, z + 24.0, 288.0);
    const float q = 1440.0 + 6.0 * r * (53.0 * z - 120.0 * r) - 65.0 * r * r * z + 107.0 * z +
                    3600.0 * r;
    return p * q / 1244160.0;
  }
  const float mu = tv_div(x - a, a), l = abs(mu) > 0.3 ? tv_log(r) : tv_log1p(mu);
  const float rho = abs(mu) > 0.3 ? mu - l : tv_log1p_rest(mu);
  const float bend = tv_div(0.353553391 * z, rho * tv_sqrt(rho));  // 1 / (sqrt(8) a rho^1.5)
  const float term = l * (tv_div(-1.0, mu) + (x < a ? -bend : bend)) -
                     tv_div(0.5 * z * (2.0 + mu), mu * mu);
  return -tv_div(x * term, a) * fma(z * 0.0833333333, fma(z, 0.0416666667, 1.0), 1.0);
}

/// The derivative of a standard gamma variate x by its shape a, -(dP/da) / (dP/dx).
float tv_gamma_grad(float a, float x) {
  if (x < 0.8) return tv_gamma_grad_small(a, x);
  if (a > 8.0) return tv_gamma_grad_large(a, x);
  const float r = tv_div(x, a), v = tv_log(a), u = tv_isinf(r) ? tv_log(x) - v : tv_log(r);
  const float p0 = 0.16009398 + u * (0.53487893 + u * 0.040121004);
  const float p1 = -0.094634809 + u * (0.1298071 + u * -0.0065914022);
  const float p2 = 0.025146376 + u * (0.065735949 + u * -0.0026286047);
  const float p3 = -0.0030648343 + u * (-0.0015649758 + u * -0.0013441777);
  const float q0 = 1.0 + u * (0.16639465 + u * 0.017050642);
  const float q1 = 0.32668115 + u * (0.020070113 + u * -0.0021309326);
  const float q2 = 0.10406089 + u * (-0.0035938915 + u * 0.00085092367);
  const float q3 = 0.0014179084 + u * (-0.00058392623 + u * -1.5247877e-07);
  const float p = p0 + v * (p1 + v * (p2 + v * p3)), q = q0 + v * (q1 + v * (q2 + v * q3));
  return tv_exp(tv_div(p, q));
}
