// Floating-point numbers of 8 and 4 bits from their codes, exactly: denormals, infinities and NaN,
// too.
//
// A code's exponent and mantissa are moved to where float32 has them, and the exponents' biases
// made equal. Denormals are multiples of the least one.

float tv_with_sign(float magnitude, uint sign) {
  return uintBitsToFloat(floatBitsToUint(magnitude) | sign << 31);
}

/// NaN for 0x7f and 0xff, no infinities (OCP 8-bit Floating Point Specification).
float tv_from_float8_e4m3fn(uint code) {
  const uint m = code & 0x7fu;
  const float normal = uintBitsToFloat(m == 0x7fu ? 0x7fc00000u : (m << 20) + (120u << 23));
  return tv_with_sign(m < 8u ? float(m) * 0.001953125 : normal, code >> 7 & 1u);
}

/// NaN for 0x80 alone: no infinities, no -0 (arXiv 2206.02915). Bias 8.
float tv_from_float8_e4m3fnuz(uint code) {
  const uint m = code & 0x7fu;
  const float normal = uintBitsToFloat((m << 20) + (119u << 23));
  const float v = tv_with_sign(m < 8u ? float(m) * 0.0009765625 : normal, code >> 7 & 1u);
  return (code & 0xffu) == 0x80u ? uintBitsToFloat(0x7fc00000u) : v;
}

/// float16's upper byte.
float tv_from_float8_e5m2(uint code) {
  const uint m = code & 0x7fu;
  const uint special = m == 0x7cu ? 0x7f800000u : 0x7fc00000u;
  const float normal = uintBitsToFloat(m >= 0x7cu ? special : (m << 21) + (112u << 23));
  return tv_with_sign(m < 4u ? float(m) * 1.52587890625e-05 : normal, code >> 7 & 1u);
}

/// As e4m3fnuz. Bias 16.
float tv_from_float8_e5m2fnuz(uint code) {
  const uint m = code & 0x7fu;
  const float normal = uintBitsToFloat((m << 21) + (111u << 23));
  const float v = tv_with_sign(m < 4u ? float(m) * 7.62939453125e-06 : normal, code >> 7 & 1u);
  return (code & 0xffu) == 0x80u ? uintBitsToFloat(0x7fc00000u) : v;
}

/// 2^(code - 127); NaN for 255 (OCP Microscaling Formats).
float tv_from_float8_e8m0fnu(uint code) {
  const uint e = code & 0xffu;
  return uintBitsToFloat(e == 0u ? 0x400000u : e == 255u ? 0x7fc00000u : e << 23);
}

/// 0, 0.5, 1, 1.5, 2, 3, 4, 6 and their negatives.
float tv_from_float4_e2m1fn(uint code) {
  const uint m = code & 7u;
  return tv_with_sign(m < 2u ? float(m) * 0.5 : uintBitsToFloat((m << 22) + (126u << 23)),
      code >> 3 & 1u);
}

/// The code of |x|, rounded to the nearest, halves to even, without an upper bound: exponents of
/// the given bias, `mantissa` bits. Kernels that keep no denormals read float32's as 0, which they
/// round to anyway.
uint tv_small_magnitude(float x, uint mantissa, int bias) {
  const uint bits = floatBitsToUint(x) & 0x7fffffffu;
  if (bits < uint(128 - bias) << 23)  // denormals of the small format: multiples of the least one
    return uint(roundEven(uintBitsToFloat(bits) *
                          uintBitsToFloat(uint(126 + bias + int(mantissa)) << 23)));
  const uint shift = 23u - mantissa;
  return (bits + (1u << (shift - 1u)) - 1u + (bits >> shift & 1u) >> shift) -
      (uint(127 - bias) << mantissa);
}

// Codes of floats, as floats. What is beyond the range becomes NaN, of e5m2 infinity.

float tv_to_float8_e4m3fn(float x) {
  const uint sign = floatBitsToUint(x) >> 31 << 7;
  return float(min(tv_small_magnitude(x, 3u, 7), 0x7fu) | sign);
}

float tv_to_float8_e5m2(float x) {
  const uint bits = floatBitsToUint(x), sign = bits >> 31 << 7;
  const uint code = min(tv_small_magnitude(x, 2u, 15), 0x7cu);
  return float(((bits & 0x7fffffffu) > 0x7f800000u ? 0x7fu : code) | sign);
}

/// Neither infinities nor -0: 0x80 is NaN.
float tv_to_small_fnuz(float x, uint code) {
  const uint sign = floatBitsToUint(x) >> 31 << 7;
  return float(code > 0x7fu ? 0x80u : code == 0u ? 0u : code | sign);
}

float tv_to_float8_e4m3fnuz(float x) { return tv_to_small_fnuz(x, tv_small_magnitude(x, 3u, 8)); }

float tv_to_float8_e5m2fnuz(float x) { return tv_to_small_fnuz(x, tv_small_magnitude(x, 2u, 16)); }
