// Orthogonal polynomials of degree n by their recurrences, as torch defines them outside of their
// ranges: 0 for n < 0, and Chebyshev's by angles inside of [-1, 1] from degree 64 on.

#include "math.glsl"

// What lavapipe's loops can do; beyond it values outside of [-1, 1] have long overflowed.
const int kTvMostSteps = 32000;

/// What is no int64 is the least of them, as on the CPUs that torch runs on.
int tv_degree(float n) { return abs(n) < 9.22337204e18 ? int(clamp(n, -1.0, 2.1e9)) : -1; }
bool tv_is_even(int n) { return (n & 1) == 0; }

/// q_0 = 1, q_1 = `first`, q_k = 2 x q_k-1 - q_k-2.
float tv_chebyshev_sum(float x, int n, float first) {
  float p = 1.0, q = first;
  for (int k = 2; k <= min(n, kTvMostSteps) && !tv_isnan(q); ++k) {
    const float r = (x + x) * q - p;
    p = q;
    q = r;
  }
  return n == 0 ? 1.0 : q;
}

float tv_chebyshev_t(float x, float degree) {
  const int n = tv_degree(degree);
  if (n < 0) return 0.0;
  if (abs(x) == 1.0) return x > 0.0 || tv_is_even(n) ? 1.0 : -1.0;
  if (n > 64 && abs(x) < 1.0) return tv_cos(float(n) * tv_acos(x));
  return tv_chebyshev_sum(x, n, x);
}
float tv_chebyshev_u(float x, float degree) {
  const int n = tv_degree(degree);
  if (n < 0) return 0.0;
  if (abs(x) == 1.0) return (x > 0.0 || tv_is_even(n) ? 1.0 : -1.0) * (float(n) + 1.0);
  if (n > 64 && abs(x) < 1.0) {
    const float a = tv_acos(x);
    return tv_div(tv_sin((float(n) + 1.0) * a), tv_sin(a));
  }
  return tv_chebyshev_sum(x, n, x + x);
}
float tv_chebyshev_v(float x, float degree) {
  const int n = tv_degree(degree);
  if (n < 0) return 0.0;
  if (x == 1.0) return 1.0;
  if (x == -1.0) return (tv_is_even(n) ? 1.0 : -1.0) * (2.0 * float(n) + 1.0);
  if (n > 64 && abs(x) < 1.0) {
    const float a = tv_acos(x);
    return tv_div(tv_cos((float(n) + 0.5) * a), tv_cos(0.5 * a));
  }
  return tv_chebyshev_sum(x, n, x + x - 1.0);
}
float tv_chebyshev_w(float x, float degree) {
  const int n = tv_degree(degree);
  if (n < 0) return 0.0;
  if (x == 1.0) return 2.0 * float(n) + 1.0;
  if (x == -1.0) return tv_is_even(n) ? 1.0 : -1.0;
  if (n > 64 && abs(x) < 1.0) {
    const float a = tv_acos(x);
    return tv_div(tv_sin((float(n) + 0.5) * a), tv_sin(0.5 * a));
  }
  return tv_chebyshev_sum(x, n, x + x + 1.0);
}

/// Hermite's, the physicists' (twice = 2) and the probabilists' (1). torch ends at degree 128.
float tv_hermite(float x, float degree, float twice) {
  const int n = tv_degree(degree);
  if (n < 0) return 0.0;
  if (n > 128) return TV_NAN;
  float p = 1.0, q = twice * x;
  for (int k = 1; k < n; ++k) {
    const float r = twice * x * q - twice * float(k) * p;
    p = q;
    q = r;
  }
  return n == 0 ? 1.0 : q;
}

float tv_laguerre(float x, float degree) {
  const int n = tv_degree(degree);
  if (n < 0) return 0.0;
  if (x == 0.0 || n == 0) return 1.0;
  float p = 1.0, q = 1.0 - x;
  for (int k = 1; k < min(n, kTvMostSteps) && !tv_isnan(q); ++k) {
    const float r = tv_div((2.0 * float(k) + (1.0 - x)) * q - float(k) * p, float(k) + 1.0);
    p = q;
    q = r;
  }
  return q;
}

float tv_legendre(float x, float degree) {
  const int n = tv_degree(degree);
  if (n < 0) return 0.0;
  if (abs(x) == 1.0) return x > 0.0 || tv_is_even(n) ? 1.0 : -1.0;
  if (n == 0) return 1.0;
  float p = 1.0, q = x;
  for (int k = 1; k < min(n, kTvMostSteps) && !tv_isnan(q); ++k) {
    const float r = tv_div((2.0 * float(k) + 1.0) * x * q - float(k) * p, float(k) + 1.0);
    p = q;
    q = r;
  }
  return q;
}
