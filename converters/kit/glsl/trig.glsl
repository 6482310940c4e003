// Circular functions and their inverses. Errors: see math.glsl.

/// 192 bits of 2/π after the binary point, most significant word first.
uint tv_two_over_pi(int word) {
  switch (word) {
    case 0: return 0u;
    case 1: return 0xa2f9836eu;
    case 2: return 0x4e441529u;
    case 3: return 0xfc2757d1u;
    case 4: return 0xf534ddc0u;
    case 5: return 0xdb629599u;
    default: return 0x3c439041u;
  }
}

/// |x| modulo π/2 for |x| >= 2^15: the fraction of |x| · 2/π by integers (Payne, Hanek 1983).
float tv_reduce_large(float x, out int quadrant) {
  const uint bits = floatBitsToUint(x);
  const int e = int(bits >> 23 & 0xffu) - 127;
  const uint mantissa = (bits & 0x7fffffu | 0x800000u) << 8;
  // |x| = mantissa · 2^(e-31), so bits of 2/π that weigh more than 2^(32-e) give whole turns.
  const int shift = (e - 1) & 31, word = (e - 1) >> 5;
  const uint w0 = tv_two_over_pi(word), w1 = tv_two_over_pi(word + 1),
      w2 = tv_two_over_pi(word + 2),
             w3 = tv_two_over_pi(word + 3);
  const uint h = shift == 0 ? w0 : w0 << shift | w1 >> (32 - shift);
  const uint m = shift == 0 ? w1 : w1 << shift | w2 >> (32 - shift);
  const uint l = shift == 0 ? w2 : w2 << shift | w3 >> (32 - shift);
  uint carry, high, low, rest, product = mantissa * h;
  umulExtended(mantissa, m, high, low);
  product += high;
  umulExtended(mantissa, l, high, rest);
  low = uaddCarry(low, high, carry);
  product += carry;
  // product.low now counts quadrants in 2^-30: two bits of quadrant, then the fraction.
  quadrant = int(product >> 30);
  uint frac_high = product << 2 | low >> 30, frac_low = low << 2;
  const bool upper = (frac_high & 0x80000000u) != 0u;
  if (upper) {
    quadrant += 1;
    frac_high = ~frac_high;
    frac_low = ~frac_low;
  }
  // Normalise, so that the leading bits are not lost to a fraction near 0.
  const int lead = frac_high == 0u ? 32 : 31 - findMSB(frac_high);
  const uint top = lead == 0 ? frac_high
                   : lead == 32 ? frac_low
                                : frac_high << lead | frac_low >> (32 - lead);
  float r = float(top >> 1) * uintBitsToFloat(uint(127 - 31 - lead) << 23) * 1.57079637;
  r = upper ? -r : r;
  return r;
}

/// x = quadrant · π/2 + r, |r| <= π/4; Cody and Waite's method in four parts.
float tv_reduce_angle(float x, out int quadrant) {
  const float j = roundEven(clamp(x, -40000.0, 40000.0) * 0.636619747);
  // The products but the last are exact: 15 bits times 9.
  precise float r = x - j * 1.5703125;
  r = r - j * 4.8351287841796875e-4;
  r = r - j * 3.13855708e-7;
  r = r - j * 6.07710092e-11;
  quadrant = int(j);
  if (abs(x) > 40000.0) {
    r = tv_reduce_large(abs(x), quadrant);
    quadrant = x < 0.0 ? -quadrant : quadrant;
    r = x < 0.0 ? -r : r;
  }
  return r;
}

float tv_sin_core(float r) {
  const float s = r * r;
  float p = 2.86567956e-6;
  p = fma(p, s, -1.98559923e-4);
  p = fma(p, s, 8.33338592e-3);
  p = fma(p, s, -1.66666672e-1);
  return fma(p, r * s, r);
}

float tv_cos_core(float r) {
  const float s = r * r;
  float p = 2.44677067e-5;
  p = fma(p, s, -1.38877297e-3);
  p = fma(p, s, 4.16666567e-2);
  p = fma(p, s, -0.5);
  return fma(p, s, 1.0);
}

/// 3 ULP for every x.
float tv_sin(float x) {
  int q;
  const float r = tv_reduce_angle(x, q);
  const float y = (q & 1) != 0 ? tv_cos_core(r) : tv_sin_core(r);
  return !tv_isfinite(x) ? TV_NAN : x == 0.0 ? x : (q & 2) != 0 ? -y : y;
}

/// 3 ULP for every x.
float tv_cos(float x) {
  int q;
  const float r = tv_reduce_angle(x, q);
  const float y = (q & 1) != 0 ? tv_sin_core(r) : tv_cos_core(r);
  return !tv_isfinite(x) ? TV_NAN : (q + 1 & 2) != 0 ? -y : y;
}

/// 4 ULP for every x.
float tv_tan(float x) {
  int q;
  const float r = tv_reduce_angle(x, q);
  const float s = tv_sin_core(r), c = tv_cos_core(r);
  return !tv_isfinite(x) ? TV_NAN : x == 0.0 ? x : (q & 1) != 0 ? tv_div(-c, s) : tv_div(s, c);
}

/// arctan(z) for 0 <= z <= 1.
float tv_atan_core(float z) {
  const float s = z * z;
  float p = 2.78569828e-3;
  p = fma(p, s, -1.58660226e-2);
  p = fma(p, s, 4.24722321e-2);
  p = fma(p, s, -7.49753043e-2);
  p = fma(p, s, 1.06448799e-1);
  p = fma(p, s, -1.42070308e-1);
  p = fma(p, s, 1.99934542e-1);
  p = fma(p, s, -3.33331466e-1);
  return fma(p * s, z, z);
}

/// 2 ULP.
float tv_atan(float x) {
  const float a = abs(x);
  const float t = tv_atan_core(a > 1.0 ? tv_div(1.0, a) : a);
  const float y = a > 1.0 ? 1.57079637 - (t + 4.37113883e-8) : t;
  return tv_isnan(x) ? x : tv_copysign(y, x);
}

/// Angle of (x, y). 3 ULP.
float tv_atan2(float y, float x) {
  // Compared by their bits: some devices take denormals for 0.
  const uint ux = floatBitsToUint(x) & 0x7fffffffu, uy = floatBitsToUint(y) & 0x7fffffffu;
  const float big = uintBitsToFloat(max(ux, uy)), small = uintBitsToFloat(min(ux, uy));
  float t = max(ux, uy) == 0u ? 0.0 : tv_isinf(big) ? (tv_isinf(small) ? 1.0 : 0.0) :
      tv_div(small, big);
  t = tv_atan_core(t);
  t = uy > ux ? 1.57079637 - (t + 4.37113883e-8) : t;
  t = floatBitsToInt(x) < 0 ? 3.14159274 - (t + 8.74227766e-8) : t;
  return tv_isnan(x) || tv_isnan(y) ? TV_NAN : tv_copysign(t, y);
}

/// arcsin(x) for |x| <= 0.5.
float tv_asin_core(float x) {
  const float s = x * x;
  float p = 0.0375781804;
  p = fma(p, s, 0.0143937888);
  p = fma(p, s, 0.0318198241);
  p = fma(p, s, 0.0445154719);
  p = fma(p, s, 0.0750051215);
  p = fma(p, s, 0.166666597);
  return fma(p * s, x, x);
}

/// 3 ULP.
float tv_asin(float x) {
  const float a = abs(x);
  const float h = tv_asin_core(a > 0.5 ? tv_sqrt(max(fma(-0.5, a, 0.5), 0.0)) : a);
  const float y = a > 0.5 ? fma(-2.0, h, 1.57079637) : h;
  return a > 1.0 ? TV_NAN : tv_isnan(x) ? x : tv_copysign(y, x);
}

/// 3 ULP.
float tv_acos(float x) {
  const float a = abs(x);
  const float h = tv_asin_core(a > 0.5 ? tv_sqrt(max(fma(-0.5, a, 0.5), 0.0)) : x);
  const float near_one = x > 0.0 ? 2.0 * h : 3.14159274 - (2.0 * h + 8.74227766e-8);
  const float y = a > 0.5 ? near_one : 1.57079637 - (h + 4.37113883e-8);
  return a > 1.0 ? TV_NAN : tv_isnan(x) ? x : y;
}

/// 3 ULP.
float tv_asinh(float x) {
  const float a = abs(x);
  const float big = tv_log(a) + 0.693147182;
  const float y = a > 1.0e18 ? big : tv_log1p(a + tv_div(a * a, 1.0 + tv_sqrt(fma(a, a, 1.0))));
  return tv_isnan(x) || tv_isinf(x) ? x : tv_copysign(y, x);
}

/// 3 ULP.
float tv_acosh(float x) {
  const float t = x - 1.0;
  const float big = tv_log(x) + 0.693147182;
  const float y = x > 1.0e18 ? big : tv_log1p(t + tv_sqrt(max(fma(t, t, 2.0 * t), 0.0)));
  return x < 1.0 ? TV_NAN : tv_isnan(x) ? x : y;
}

/// 3 ULP.
float tv_atanh(float x) {
  const float a = abs(x);
  const float y = 0.5 * tv_log1p(tv_div(2.0 * a, 1.0 - a));
  return a > 1.0 ? TV_NAN : tv_isnan(x) ? x : tv_copysign(a == 1.0 ? TV_INF : y, x);
}
