// Bessel functions of orders 0 and 1, plain and modified, and Airy's. Polynomials are our own fits
// (Chebyshev nodes, 30-digit references); forms: Abramowitz and Stegun, chapters 9 and 10. Errors
// are a few units in the last place, near zeros of the function as many units of its amplitude.

#include "math.glsl"

/// i0e(x) for x = 2 + 2 t.
float tv_i0e_near(float t) {
  float p = -0.000469619757;
  p = fma(p, t, 0.00157276215);
  p = fma(p, t, -0.00311097968);
  p = fma(p, t, 0.00723522389);
  p = fma(p, t, -0.0170878023);
  p = fma(p, t, 0.0343834572);
  p = fma(p, t, -0.0604630969);
  p = fma(p, t, 0.0941102281);
  p = fma(p, t, -0.128889039);
  p = fma(p, t, 0.157690883);
  p = fma(p, t, -0.186478406);
  return fma(p, t, 0.308508277);
}

/// sqrt(x) i0e(x) for 4 / x = (1 + t) / 2.
float tv_i0e_far(float t) {
  float p = 4.96190205e-06;
  p = fma(p, t, 5.70478051e-06);
  p = fma(p, t, -1.79366925e-05);
  p = fma(p, t, -3.17458507e-05);
  p = fma(p, t, 8.56558199e-06);
  p = fma(p, t, 7.72806452e-05);
  p = fma(p, t, 0.000185796074);
  p = fma(p, t, 0.00073548709);
  p = fma(p, t, 0.00734939659);
  return fma(p, t, 0.405686349);
}

/// i1e(x) / x for x = 2 + 2 t.
float tv_i1e_near(float t) {
  float p = -8.38743217e-05;
  p = fma(p, t, 0.000322336913);
  p = fma(p, t, -0.000768903177);
  p = fma(p, t, 0.00201258599);
  p = fma(p, t, -0.0052562193);
  p = fma(p, t, 0.0121496972);
  p = fma(p, t, -0.0250306968);
  p = fma(p, t, 0.0460221022);
  p = fma(p, t, -0.0744860694);
  p = fma(p, t, 0.104202464);
  p = fma(p, t, -0.122030355);
  return fma(p, t, 0.107634641);
}

/// sqrt(x) i1e(x) for 4 / x = (1 + t) / 2.
float tv_i1e_far(float t) {
  float p = 1.8513573e-06;
  p = fma(p, t, -5.55783436e-06);
  p = fma(p, t, -1.0374365e-05);
  p = fma(p, t, 2.07855883e-05);
  p = fma(p, t, 3.79317171e-05);
  p = fma(p, t, -1.33621052e-05);
  p = fma(p, t, -9.39468082e-05);
  p = fma(p, t, -0.000235738786);
  p = fma(p, t, -0.00112574873);
  p = fma(p, t, -0.0204864312);
  return fma(p, t, 0.379412264);
}

/// j0(x) for x^2 = 12.5 (1 + t).
float tv_j0_near(float t) {
  float p = -1.57552748e-07;
  p = fma(p, t, 3.94116933e-06);
  p = fma(p, t, -7.68339669e-05);
  p = fma(p, t, 0.00113435241);
  p = fma(p, t, -0.0120352143);
  p = fma(p, t, 0.0853918269);
  p = fma(p, t, -0.360180765);
  p = fma(p, t, 0.709416032);
  p = fma(p, t, -0.216505408);
  return fma(p, t, -0.384744495);
}

/// P of the asymptotic form for (5 / x)^2 = (1 + t) / 2.
float tv_bessel_p0(float t) {
  float p = -5.66467193e-08;
  p = fma(p, t, 3.15905964e-07);
  p = fma(p, t, -2.45693832e-06);
  p = fma(p, t, 3.49102047e-05);
  p = fma(p, t, -0.00132749346);
  return fma(p, t, 0.998634756);
}

/// Q / (5 / x) of the asymptotic form for (5 / x)^2 = (1 + t) / 2.
float tv_bessel_q0(float t) {
  float p = 4.31806129e-08;
  p = fma(p, t, -2.03891801e-07);
  p = fma(p, t, 1.24499161e-06);
  p = fma(p, t, -1.26713048e-05);
  p = fma(p, t, 0.000262843154);
  return fma(p, t, -0.0247229934);
}

/// y0's part without logarithm for x^2 = 12.5 (1 + t).
float tv_y0_near(float t) {
  float p = -9.7389945e-09;
  p = fma(p, t, 2.92152464e-07);
  p = fma(p, t, -6.98548411e-06);
  p = fma(p, t, 0.000129945562);
  p = fma(p, t, -0.00180280965);
  p = fma(p, t, 0.0176353455);
  p = fma(p, t, -0.111516818);
  p = fma(p, t, 0.388516396);
  p = fma(p, t, -0.470576376);
  p = fma(p, t, -0.432655811);
  return fma(p, t, 0.483724862);
}

/// j1(x) / x for x^2 = 12.5 (1 + t).
float tv_j1_near(float t) {
  float p = -8.11054424e-09;
  p = fma(p, t, 2.26935015e-07);
  p = fma(p, t, -5.0284757e-06);
  p = fma(p, t, 8.60539367e-05);
  p = fma(p, t, -0.00108898897);
  p = fma(p, t, 0.0096281711);
  p = fma(p, t, -0.0546507686);
  p = fma(p, t, 0.172886774);
  p = fma(p, t, -0.227013126);
  return fma(p, t, 0.0346408673);
}

/// P of the asymptotic form for (5 / x)^2 = (1 + t) / 2.
float tv_bessel_p1(float t) {
  float p = 6.43447038e-08;
  p = fma(p, t, -3.67174891e-07);
  p = fma(p, t, 2.97524161e-06);
  p = fma(p, t, -4.57748611e-05);
  p = fma(p, t, 0.00224146363);
  return fma(p, t, 1.00229061);
}

/// Q / (5 / x) of the asymptotic form for (5 / x)^2 = (1 + t) / 2.
float tv_bessel_q1(float t) {
  float p = -4.85550196e-08;
  p = fma(p, t, 2.33410262e-07);
  p = fma(p, t, -1.47082847e-06);
  p = fma(p, t, 1.57893865e-05);
  p = fma(p, t, -0.000372970331);
  return fma(p, t, 0.0746094882);
}

/// y1's part without logarithm and pole, / x, for x^2 = 12.5 (1 + t).
float tv_y1_near(float t) {
  float p = -4.60773059e-10;
  p = fma(p, t, 1.53203636e-08);
  p = fma(p, t, -4.11377158e-07);
  p = fma(p, t, 8.73306726e-06);
  p = fma(p, t, -0.000141418364);
  p = fma(p, t, 0.00166880316);
  p = fma(p, t, -0.0134334341);
  p = fma(p, t, 0.0663469508);
  p = fma(p, t, -0.16312021);
  p = fma(p, t, 0.0910865068);
  return fma(p, t, 0.139749393);
}

/// k0(x) + log(x / 2) i0(x) for x^2 = 2 (1 + t).
float tv_k0_near(float t) {
  float p = 6.09445223e-08;
  p = fma(p, t, 4.05566561e-06);
  p = fma(p, t, 0.000182805554);
  p = fma(p, t, 0.00505339215);
  p = fma(p, t, 0.0717770085);
  p = fma(p, t, 0.340497315);
  return fma(p, t, -0.303620785);
}

/// sqrt(x) e^x k0(x) for 2 / x = (1 + t) / 2.
float tv_k0_far(float t) {
  float p = 1.82105452e-07;
  p = fma(p, t, -4.34538947e-07);
  p = fma(p, t, 6.42211603e-07);
  p = fma(p, t, -2.00500085e-06);
  p = fma(p, t, 7.05720868e-06);
  p = fma(p, t, -2.48216238e-05);
  p = fma(p, t, 9.95473747e-05);
  p = fma(p, t, -0.000479753042);
  p = fma(p, t, 0.00303289294);
  p = fma(p, t, -0.0310714617);
  return fma(p, t, 1.21859539);
}

/// x (k1(x) - log(x / 2) i1(x)) for x^2 = 2 (1 + t).
float tv_k1_near(float t) {
  float p = -9.03353037e-09;
  p = fma(p, t, -7.08284063e-07);
  p = fma(p, t, -3.89186898e-05);
  p = fma(p, t, -0.00138316874);
  p = fma(p, t, -0.0278542358);
  p = fma(p, t, -0.243838534);
  p = fma(p, t, -0.332240969);
  return fma(p, t, 0.885088265);
}

/// sqrt(x) e^x k1(x) for 2 / x = (1 + t) / 2.
float tv_k1_far(float t) {
  float p = -2.18234021e-07;
  p = fma(p, t, 5.15868578e-07);
  p = fma(p, t, -7.78673325e-07);
  p = fma(p, t, 2.51358961e-06);
  p = fma(p, t, -9.0351441e-06);
  p = fma(p, t, 3.29442737e-05);
  p = fma(p, t, -0.000139571261);
  p = fma(p, t, 0.000735705544);
  p = fma(p, t, -0.00556673156);
  p = fma(p, t, 0.103349738);
  return fma(p, t, 1.36315191);
}

/// airy_ai(2.1 t).
float tv_airy_near(float t) {
  float p = -2.22287258e-06;
  p = fma(p, t, -1.28870897e-05);
  p = fma(p, t, 7.13839399e-05);
  p = fma(p, t, -1.64834637e-05);
  p = fma(p, t, -0.000569237454);
  p = fma(p, t, 0.00154309312);
  p = fma(p, t, 2.67242376e-06);
  p = fma(p, t, -0.00952705089);
  p = fma(p, t, 0.0217575897);
  p = fma(p, t, 3.33971434e-06);
  p = fma(p, t, -0.0924911648);
  p = fma(p, t, 0.169162571);
  p = fma(p, t, -2.89259923e-08);
  p = fma(p, t, -0.419462085);
  p = fma(p, t, 0.547985792);
  p = fma(p, t, -2.35531283e-09);
  p = fma(p, t, -0.543520749);
  return fma(p, t, 0.355028063);
}

/// 2 sqrt(pi) x^(1/4) e^z airy_ai(x), z = 2 / 3 x^(3/2), for 1 / z = (1 + t) / 4.
float tv_airy_right(float t) {
  float p = 4.45774418e-07;
  p = fma(p, t, -1.2177253e-06);
  p = fma(p, t, 2.7340011e-06);
  p = fma(p, t, -9.91947309e-06);
  p = fma(p, t, 4.12794907e-05);
  p = fma(p, t, -0.000200669892);
  p = fma(p, t, 0.00129178865);
  p = fma(p, t, -0.0139322383);
  return fma(p, t, 0.98451972);
}

/// f of the oscillating form for 1 / z^2 = (1 + t) / 8.
float tv_airy_f(float t) {
  float p = 5.73994475e-06;
  p = fma(p, t, -1.14424338e-05);
  p = fma(p, t, 1.84050514e-05);
  p = fma(p, t, -6.73089453e-05);
  p = fma(p, t, 0.000343494088);
  p = fma(p, t, -0.00358313834);
  return fma(p, t, 0.995970368);
}

/// g z of the oscillating form for 1 / z^2 = (1 + t) / 8.
float tv_airy_g(float t) {
  float p = 4.10096709e-06;
  p = fma(p, t, -5.42668431e-06);
  p = fma(p, t, -2.78658626e-06);
  p = fma(p, t, 1.21979247e-06);
  p = fma(p, t, 1.16328638e-05);
  p = fma(p, t, -2.12465748e-05);
  p = fma(p, t, 4.39000869e-05);
  p = fma(p, t, -0.000127899955);
  p = fma(p, t, 0.000483188196);
  p = fma(p, t, -0.00298756873);
  return fma(p, t, 0.065763481);
}

/// e^-|x| I_0(x), e^-|x| I_1(x).
float tv_i0e(float x) {
  const float a = abs(x);
  if (tv_isnan(x)) return x;
  if (a == 0.0) return 1.0;  // the fit is 4 units off
  return a < 4.0 ? tv_i0e_near(0.5 * a - 1.0) : tv_i0e_far(8.0 / a - 1.0) / tv_sqrt(a);
}
float tv_i1e(float x) {
  const float a = abs(x), far = tv_i1e_far(8.0 / a - 1.0) / tv_sqrt(a);
  const float y = a < 4.0 ? a * tv_i1e_near(0.5 * a - 1.0) : far;
  return tv_isnan(x) ? x : x < 0.0 ? -y : y;  // of -0 it is 0, as eager's
}
/// e^|x| grows out of range before the result does.
float tv_grown(float a, float scaled) {
  const float half_e = tv_exp(0.5 * a);
  // `precise`: in another order the exponentials alone pass the range.
  precise float part = half_e * scaled, grown = part * half_e;
  return scaled == 0.0 ? scaled : grown;
}
// At infinity these, j, y and Airy's are NaN, as eager's are.
float tv_i0(float x) { return tv_isinf(x) ? TV_NAN : tv_grown(abs(x), tv_i0e(x)); }
float tv_i1(float x) { return tv_isinf(x) ? TV_NAN : tv_grown(abs(x), tv_i1e(x)); }

float tv_modified_k0(float x, bool scaled) {
  if (tv_isnan(x) || x < 0.0) return TV_NAN;
  if ((floatBitsToUint(x) & 0x7fffffffu) == 0u) return TV_INF;  // by bits: a denormal is not 0
  if (x > 2.0) return tv_k0_far(4.0 / x - 1.0) / tv_sqrt(x) * (scaled ? 1.0 : tv_exp(-x));
  const float half_log = x < 1e-30 ? tv_log(x) - 0.693147182 : tv_log(0.5 * x);
  const float y = tv_k0_near(0.5 * x * x - 1.0) - half_log * tv_i0(x);
  return scaled ? y * tv_exp(x) : y;
}
float tv_modified_k1(float x, bool scaled) {
  if (tv_isnan(x) || x < 0.0) return TV_NAN;
  if (x == 0.0) return TV_INF;
  if (x < 1e-10) return tv_div(1.0, x);  // half of x may be a denormal, and 0
  if (x > 2.0) return tv_k1_far(4.0 / x - 1.0) / tv_sqrt(x) * (scaled ? 1.0 : tv_exp(-x));
  const float y = tv_div(tv_k1_near(0.5 * x * x - 1.0), x) + tv_log(0.5 * x) * tv_i1(x);
  return scaled ? y * tv_exp(x) : y;
}

/// sqrt(2 / (pi a)) (p cos(a - shift) - q sin(a - shift)), and with the sine for the cosine, for a
/// shift of pi / 4 (order 0) or 3 pi / 4: the angle is never formed, so its rounding does not show.
float tv_bessel_wave(float a, float p, float q, bool second, bool order1) {
  const float s = tv_sin(a), c = tv_cos(a);
  const float cosine = order1 ? s - c : c + s, sine = order1 ? -s - c : s - c;
  const float wave = second ? p * sine + q * cosine : p * cosine - q * sine;
  return 0.564189613 * wave / tv_sqrt(a);
}
float tv_bessel0(float a, bool second) {
  const float z = 5.0 / a, t = 2.0 * z * z - 1.0;
  return tv_bessel_wave(a, tv_bessel_p0(t), z * tv_bessel_q0(t), second, false);
}
float tv_bessel1(float a, bool second) {
  const float z = 5.0 / a, t = 2.0 * z * z - 1.0;
  return tv_bessel_wave(a, tv_bessel_p1(t), z * tv_bessel_q1(t), second, true);
}
float tv_j0(float x) {
  const float a = abs(x);
  if (tv_isinf(x)) return TV_NAN;
  return a < 5.0 ? tv_j0_near(0.0799999982 * a * a - 1.0) : tv_bessel0(a, false);
}
float tv_j1(float x) {
  const float a = abs(x);
  if (tv_isinf(x)) return TV_NAN;
  const float y = a < 5.0 ? a * tv_j1_near(0.0799999982 * a * a - 1.0) : tv_bessel1(a, false);
  return floatBitsToInt(x) < 0 ? -y : y;
}
float tv_y0(float x) {
  if (tv_isnan(x) || x < 0.0) return TV_NAN;
  if (x == 0.0) return -TV_INF;
  if (tv_isinf(x)) return TV_NAN;
  if (x >= 5.0) return tv_bessel0(x, true);
  return tv_y0_near(0.0799999982 * x * x - 1.0) + 0.636619747 * tv_log(x) * tv_j0(x);
}
float tv_y1(float x) {
  if (tv_isnan(x) || x < 0.0) return TV_NAN;
  if (x == 0.0) return -TV_INF;
  if (tv_isinf(x)) return TV_NAN;
  if (x >= 5.0) return tv_bessel1(x, true);
  const float rest = 0.636619747 * (tv_log(x) * tv_j1(x) - tv_div(1.0, x));
  return fma(x, tv_y1_near(0.0799999982 * x * x - 1.0), rest);
}
float tv_spherical_j0(float x) {
  const float s = x * x;
  if (tv_isinf(x)) return 0.0;
  if (abs(x) >= 0.5) return tv_div(tv_sin(x), x);
  return fma(s, fma(s, fma(s, -1.98412701e-4, 8.33333377e-3), -0.166666672), 1.0);
}

float tv_airy_ai(float x) {
  if (!tv_isfinite(x)) return TV_NAN;
  const float a = abs(x);
  if (a < 2.0999999) return tv_airy_near(x * 0.476190478);
  const float root = tv_sqrt(a), z = 0.666666687 * a * root, quarter = tv_sqrt(root);
  if (x > 0.0) return 0.282094806 * tv_airy_right(4.0 / z - 1.0) * tv_exp(-z) / quarter;
  const float w = 1.0 / (z * z), t = 8.0 * w - 1.0;
  const float f = tv_airy_f(t), g = tv_airy_g(t) / z;
  const float s = tv_sin(z), c = tv_cos(z);
  return 0.39894228 * (f * (s + c) - g * (c - s)) / quarter;
}
