// Powers, error functions and what activations need. Errors: see math.glsl.

/// 2 ULP.
float tv_erf(float x) {
  const float t = abs(x), s = x * x;
  float r = fma(-1.72853470e-5, t, 3.83197126e-4);
  const float u = fma(-3.88396438e-3, t, 2.42546219e-2);
  r = fma(r, s, u);
  r = fma(r, t, -1.06777877e-1);
  r = fma(r, t, -6.34846687e-1);
  r = fma(r, t, -1.28717512e-1);
  r = fma(r, t, -t);
  const float large = tv_copysign(t > 4.0 ? 1.0 : 1.0 - tv_exp(r), x);
  float p = -5.96761703e-4;
  p = fma(p, s, 4.99119423e-3);
  p = fma(p, s, -2.67681349e-2);
  p = fma(p, s, 1.12819925e-1);
  p = fma(p, s, -3.76125336e-1);
  p = fma(p, s, 1.28379166e-1);
  // Below 2^-115 x · 2/sqrt(pi), with no denormal on the way:
  // x · 2^74, of denormals their bits · 2^-75.
  const uint bits = floatBitsToUint(x) & 0x7fffffffu;
  precise float grown = bits < 0x800000u ? float(bits) * 2.64697796e-23 : t * 1.88894659e22;
  precise float scaled = 1.12837917 * grown;
  precise float tiny = scaled * 5.29395592e-23;
  const float small = bits < 0x06000000u ? tv_copysign(tiny, x) : fma(p, x, x);
  return tv_isnan(x) ? x : t > 0.927734375 ? large : small;
}

/// 1 - erf(x). 4 ULP.
float tv_erfc(float x) {
  const float a = min(abs(x), 11.0);
  const float t = tv_div(a - 4.0, a + 4.0);
  float p = 0.000131432607;
  p = fma(p, t, -0.000242684691);
  p = fma(p, t, -0.000760225987);
  p = fma(p, t, 0.00505248317);
  p = fma(p, t, -0.0161929578);
  p = fma(p, t, 0.0371634141);
  p = fma(p, t, -0.0663315281);
  p = fma(p, t, 0.0937332213);
  p = fma(p, t, -0.101038963);
  p = fma(p, t, 0.0680970401);
  p = fma(p, t, 0.0153796487);
  p = fma(p, t, -0.139621124);
  p = fma(p, t, 1.23299515);
  precise float square = a * a;
  const float tail = tv_div(p, fma(2.0, a, 1.0)) *
      tv_exp_sum(-square, -tv_product_error(a, a, square));
  const float y = x < 0.0 ? 2.0 - tail : tail;
  return tv_isnan(x) ? x : abs(x) < 0.5 ? 1.0 - tv_erf(x) : y;
}

/// erfinv(x) / x by w = -log(1 - x²), of at most 16:
/// Giles, Approximating the erfinv function (2011).
float tv_erfinv_part(float w) {
  const float c = w - 2.5;
  float p = 2.81022636e-08;
  p = fma(p, c, 3.43273939e-07);
  p = fma(p, c, -3.5233877e-06);
  p = fma(p, c, -4.39150654e-06);
  p = fma(p, c, 0.00021858087);
  p = fma(p, c, -0.00125372503);
  p = fma(p, c, -0.00417768164);
  p = fma(p, c, 0.246640727);
  p = fma(p, c, 1.50140941);
  const float d = sqrt(max(w, 0.0)) - 3.0;
  float q = -0.000200214257;
  q = fma(q, d, 0.000100950558);
  q = fma(q, d, 0.00134934322);
  q = fma(q, d, -0.00367342844);
  q = fma(q, d, 0.00573950773);
  q = fma(q, d, -0.0076224613);
  q = fma(q, d, 0.00943887047);
  q = fma(q, d, 1.00167406);
  q = fma(q, d, 2.83297682);
  return w < 5.0 ? p : q;
}

/// 4 ULP.
float tv_erfinv(float x) {
  const float y = x * tv_erfinv_part(-(tv_log1p(-abs(x)) + tv_log1p(abs(x))));
  return abs(x) > 1.0 ? TV_NAN : abs(x) == 1.0 ? tv_copysign(TV_INF, x) : y;
}

/// log(x) = high + low for finite x > 0, to about 2^-45 of the larger of 1 and its size.
void tv_log_pair(float x, out float high, out float low) {
  float m, k;
  tv_log_reduce(x, m, k);
  // With s = m / (2 + m): log(1 + m) = 2 s + s^3 P(s^2). 1 + m lies in [0.75, 1.5).
  precise float den = 2.0 + m;
  precise float den_low = m - (den - 2.0);
  precise float s = m / den;
  precise float back = s * den;
  precise float s_low = (((m - back) - tv_product_error(s, den, back)) - s * den_low) / den;
  precise float z = s * s;
  float p = 0.201238975;
  p = fma(p, z, 0.221349895);
  p = fma(p, z, 0.285731882);
  p = fma(p, z, 0.399999857);
  // s^3 · 2/3 in two parts: its rounding errors would show in large powers.
  precise float cube = s * z;
  precise float cube_low = tv_product_error(s, z, cube) + s * tv_product_error(s, s, z);
  precise float c = cube * 0.666666687;
  precise float c_low = tv_product_error(cube, 0.666666687, c) +
                        (cube_low * 0.666666687 - cube * 1.98682151e-8);
  const float tail = fma(2.0 * s_low, 1.0 + z, fma(p * z, cube, c_low));
  // k log 2 in two parts, the first exact.
  precise float a = k * 0.693145752;
  precise float b = 2.0 * s;
  precise float sum = a + b;
  precise float part = sum - a;
  precise float error = (a - (sum - part)) + (b - part);
  precise float sum2 = sum + c;
  precise float part2 = sum2 - sum;
  precise float error2 = (sum - (sum2 - part2)) + (c - part2);
  precise float rest = error + error2 + (k * 1.42860677e-6 + tail);
  precise float total = sum2 + rest;
  precise float lost = (sum2 - total) + rest;  // precise, or a compiler may call it 0
  high = total;
  low = lost;
}

/// 2 ULP.
float tv_pow(float x, float y) {
  float high, low;
  tv_log_pair(abs(x), high, low);
  precise float product = high * y;
  precise float product_low = tv_product_error(high, y, product) + low * y;
  float r = abs(product) > 200.0 ? (product > 0.0 ? TV_INF : 0.0) :
      tv_exp_sum(product, product_low);

  const float half_y = y * 0.5;
  const bool whole = abs(y) >= 8388608.0 || trunc(y) == y;
  const bool odd = whole && abs(y) < 16777216.0 && trunc(half_y) != half_y;
  const float a = abs(x);
  if (a == 0.0) r = y < 0.0 ? TV_INF : 0.0;
  if (tv_isinf(a)) r = y < 0.0 ? 0.0 : TV_INF;
  if (tv_isinf(y)) r = a == 1.0 ? 1.0 : (a > 1.0) == (y > 0.0) ? TV_INF : 0.0;
  if (floatBitsToInt(x) < 0 && odd) r = -r;
  if (x < 0.0 && !whole && !tv_isinf(x)) r = TV_NAN;
  if (tv_isnan(x) || tv_isnan(y)) r = TV_NAN;
  return x == 1.0 || y == 0.0 ? 1.0 : r;
}

/// Integer powers wrap; a negative exponent gives 0 unless the base is 1 or -1, as in torch.
int64_t tv_pow(int64_t x, int64_t y) {
  if (y < 0L) return x == 1L ? 1L : x == -1L ? ((y & 1L) != 0L ? -1L : 1L) : 0L;
  int64_t r = 1L, base = x;
  for (int64_t e = y; e != 0L; e >>= 1) {
    if ((e & 1L) != 0L) r *= base;
    base *= base;
  }
  return r;
}
int tv_pow(int x, int y) {
  if (y < 0) return x == 1 ? 1 : x == -1 ? ((y & 1) != 0 ? -1 : 1) : 0;
  int r = 1, base = x;
  for (int e = y; e != 0; e >>= 1) {
    if ((e & 1) != 0) r *= base;
    base *= base;
  }
  return r;
}

float tv_logit(float x) { return tv_log(tv_div(x, 1.0 - x)); }

/// log(1 + e^x).
float tv_softplus(float x) { return x > 20.0 ? x : tv_log1p(tv_exp(x)); }
float tv_log_sigmoid(float x) { return tv_min(x, 0.0) - tv_log1p(tv_exp(-abs(x))); }

/// 2^x for |x| <= 126, 1.5 ULP: what tv_exp2 does beside that is for other x.
float tv_exp2_near(float x) {
  // The sum's last bits are x to the nearest whole number.
  precise float shifted = x + 12582912.0, k = shifted - 12582912.0;
  const float r = x - k;
  float p = 1.53458125e-4;
  p = fma(p, r, 1.33999309e-3);
  p = fma(p, r, 9.61848907e-3);
  p = fma(p, r, 5.55032864e-2);
  p = fma(p, r, 2.40226462e-1);
  p = fma(p, r, 6.93147182e-1);
  return intBitsToFloat(floatBitsToInt(fma(p, r, 1.0)) + (floatBitsToInt(shifted) << 23));
}

/// 1 + erf(x / sqrt(2)), of numbers, within 1.2 * 2^-23: in one piece and without exceptions, as it
/// ends kernels whose last loop should be short.
float tv_twice_normal_cdf(float x) {
  // log2(erfc(a / sqrt(2))) / a, fitted for the error of its power.
  const float a = abs(x);
  float q = -2.83491272e-6;
  q = fma(q, a, 3.93776897e-5);
  q = fma(q, a, -1.86180230e-4);
  q = fma(q, a, -1.36936389e-4);
  q = fma(q, a, 7.06342002e-3);
  q = fma(q, a, -5.24961799e-2);
  q = fma(q, a, -4.59208190e-1);
  q = fma(q, a, -1.15110517);
  const float tail = a > 5.66 ? 0.0 : tv_exp2_near(q * a);
  return x < 0.0 ? tail : 2.0 - tail;
}

float tv_gelu(float x) { return 0.5 * x * tv_twice_normal_cdf(x); }
float tv_gelu_grad(float x) {
  return fma(x * 0.398942292, tv_exp(-0.5 * x * x), 0.5 * tv_twice_normal_cdf(x));
}
/// (1 + tanh(u)) / 2 is 1 / (1 + e^-2u).
float tv_gelu_tanh(float x) {
  const float u = 0.797884583 * fma(0.044715 * x * x, x, x), power = -2.88539004 * u;
  const float half_sum = 1.0 / (1.0 + tv_exp2_near(clamp(power, -126.0, 120.0)));
  return x * (power > 120.0 ? 0.0 : half_sum);
}
float tv_gelu_tanh_grad(float x) {
  const float t = tv_tanh(0.797884583 * fma(0.044715 * x * x, x, x));
  return 0.5 * (1.0 + t) + 0.5 * x * (1.0 - t * t) * 0.797884583 * fma(0.134145, x * x, 1.0);
}
float tv_silu_grad(float x) {
  const float s = tv_sigmoid(x);
  return s * fma(x, 1.0 - s, 1.0);
}
float tv_mish_grad(float x) {
  const float t = tv_tanh(tv_softplus(x));
  return fma(x * tv_sigmoid(x), 1.0 - t * t, t);
}

/// log(e^a + e^b).
float tv_logaddexp(float a, float b) {
  return a == b && tv_isinf(a) ? a : tv_max(a, b) + tv_log1p(tv_exp(-abs(a - b)));
}
float tv_hypot(float a, float b) {
  const float big = max(abs(a), abs(b)), small = min(abs(a), abs(b));
  const float q = big == 0.0 ? 0.0 : tv_div(small, big);
  if (tv_isinf(a) || tv_isinf(b)) return TV_INF;
  return tv_isnan(a) || tv_isnan(b) ? TV_NAN : big * tv_sqrt(fma(q, q, 1.0));
}
/// x, or a · (e^(x / a) - 1) below 0; near 0 that is x, which x / a may not keep on some devices.
float tv_celu(float x, float a) {
  const float ratio = tv_div(x, a);
  return x > 0.0 || abs(ratio) < 1e-30 ? x : a * tv_expm1(ratio);
}
float tv_xlogy(float a, float b) { return tv_isnan(b) ? b : a == 0.0 ? 0.0 : a * tv_log(b); }
/// Nearest multiple of 10^-decimals, computed as torch does; scale = 10^|decimals|.
float tv_round_decimals(float x, float scale, bool negative) {
  return negative ? roundEven(tv_div(x, scale)) * scale : tv_div(roundEven(x * scale), scale);
}
/// Shift counts outside the type's bits: 0 for the left shift, the sign for the right one, which of
/// an unsigned type is 0: a narrow value's bits above its own are its sign.
int tv_shl(int a, int n, int bits) { return n < 0 || n >= bits ? 0 : a << n; }
int tv_shr(int a, int n, int bits) { return a >> (n < 0 || n >= bits ? 31 : n); }
int64_t tv_shl(int64_t a, int64_t n) { return n < 0L || n >= 64L ? 0L : a << n; }
int64_t tv_shr(int64_t a, int64_t n) { return a >> (n < 0L || n >= 64L ? 63L : n); }

/// 2^x, exact where x is whole.
float tv_power_of_two(float x) {
  return x == trunc(x) && abs(x) < 300.0 ? tv_ldexp(1.0, clamp(int(x), -252, 252)) : tv_exp2(x);
}
/// The neighbour of a in the direction of b.
float tv_nextafter(float a, float b) {
  if (tv_isnan(a) || tv_isnan(b)) return TV_NAN;
  const int ia = floatBitsToInt(a), ib = floatBitsToInt(b);
  // Numbers in order: the negative ones count down from -0.
  const int na = ia < 0 ? int(0x80000000u) - ia : ia, nb = ib < 0 ? int(0x80000000u) - ib : ib;
  if (na == nb) return b;
  if (na == 0) return uintBitsToFloat(nb > 0 ? 1u : 0x80000001u);
  return intBitsToFloat((na < nb) == (na > 0) ? ia + 1 : ia - 1);
}
/// x = mantissa · 2^exponent with 0.5 <= |mantissa| < 1; 0, infinities and NaN are their own,
/// times 1.
float tv_frexp_exponent(float x) {
  const uint bits = floatBitsToUint(x) & 0x7fffffffu;
  if (bits == 0u || bits >= 0x7f800000u) return 0.0;
  return float(bits < 0x800000u ? findMSB(bits) - 148 : int(bits >> 23) - 126);
}
float tv_frexp_mantissa(float x) {
  const uint all = floatBitsToUint(x), bits = all & 0x7fffffffu;
  if (bits == 0u || bits >= 0x7f800000u) return x;
  const uint fraction = bits < 0x800000u ? bits << (23 - findMSB(bits)) : bits;
  return uintBitsToFloat((all & 0x80000000u) | 0x3f000000u | (fraction & 0x7fffffu));
}

/// The step of a grid that x is nearest to, by float32's x * (1 / scale), as in torch. `precise`:
/// drivers multiply a difference out, which rounds otherwise.
float tv_grid_step(float x, float scale, float zero_point) {
  precise float steps = x * tv_div(1.0, scale);
  precise float at = roundEven(steps) + zero_point;
  return at;
}
/// That step, or the first or last one, as a number again. NaN gives the first.
float tv_fake_quantize(float x, float scale, float zero_point, float first, float last) {
  const float at = tv_grid_step(x, scale, zero_point);
  precise float steps = (tv_isnan(at) || at < first ? first : at > last ? last : at) - zero_point;
  precise float y = steps * scale;
  return y;
}
bool tv_in_grid(float x, float scale, float zero_point, float first, float last) {
  const float at = tv_grid_step(x, scale, zero_point);
  return !tv_isnan(at) && at >= first && at <= last;
}
