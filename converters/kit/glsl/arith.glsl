// Division, remainder, comparison and rounding as torch defines them.

// Values that an operator refuses. Where they are not checked (Settings::check_indices), an index
// is taken for the nearest that names something, so that no address lies outside, and x / 0 for 0.
#if TV_CHECK_VALUES
void tv_note(bool wrong, uint what) { tv_bad_operand = wrong ? what + 1u : tv_bad_operand; }
#define TV_NOTE_INDEX(wrong) tv_note(wrong, kTvBadIndex)
#define TV_NOTE_DIVISOR(wrong) tv_note(wrong, kTvZeroDivisor)
#else
#define TV_NOTE_INDEX(wrong)
#define TV_NOTE_DIVISOR(wrong)
#endif
void tv_bad_index(bool wrong) { TV_NOTE_INDEX(wrong); }
/// The place in 0 … size - 1 nearest to an index, which must be that place; tv_near: need not.
uint tv_near(int64_t index, uint size) {
  return uint(max(min(index, int64_t(size) - int64_t(1)), int64_t(0)));
}
uint tv_near(int index, uint size) { return uint(max(min(index, int(size) - 1), 0)); }
uint tv_place(int64_t index, uint size) {
  const uint place = tv_near(index, size);
  TV_NOTE_INDEX(int64_t(place) != index);
  return place;
}
uint tv_place(int index, uint size) {
  const uint place = tv_near(index, size);
  TV_NOTE_INDEX(int(place) != index);
  return place;
}
int tv_divisor(int b) {
  TV_NOTE_DIVISOR(b == 0);
  return b;
}
int64_t tv_divisor(int64_t b) {
  TV_NOTE_DIVISOR(b == 0L);
  return b;
}

bool tv_isnan(float x) { return (floatBitsToUint(x) & 0x7fffffffu) > 0x7f800000u; }
bool tv_isinf(float x) { return (floatBitsToUint(x) & 0x7fffffffu) == 0x7f800000u; }
bool tv_isfinite(float x) { return (floatBitsToUint(x) & 0x7f800000u) != 0x7f800000u; }

#define TV_NAN uintBitsToFloat(0x7fc00000u)
#define TV_INF uintBitsToFloat(0x7f800000u)

/// -x by its sign bit: arithmetic flushes denormals on some devices.
float tv_neg(float x) { return uintBitsToFloat(floatBitsToUint(x) ^ 0x80000000u); }

/// `magnitude` with the sign of `from`.
float tv_copysign(float magnitude, float from) {
  // A choice, since Mesa 25's lavapipe puts bits of two numbers together wrongly in places.
  const uint bits = floatBitsToUint(magnitude);
  return uintBitsToFloat(floatBitsToInt(from) < 0 ? bits | 0x80000000u : bits & 0x7fffffffu);
}

/// NaN where either is NaN, as torch's maximum and minimum.
float tv_max(float a, float b) { return tv_isnan(a) || a > b ? a : b; }
float tv_min(float a, float b) { return tv_isnan(a) || a < b ? a : b; }
/// The same with a number for a bound; of two zeros x. A comparison alone would not do: of
/// low > x ? low : x drivers make what gives low for NaN.
float tv_at_least(float x, float low) {
  return tv_isnan(low) || (low > x && !tv_isnan(x)) ? low : x;
}
float tv_at_most(float x, float high) {
  return tv_isnan(high) || (high < x && !tv_isnan(x)) ? high : x;
}
/// 0 for the bits of numbers from -denormal to -infinity.
float tv_relu(float x) { return floatBitsToUint(x) - 0x80000001u < 0x7f800000u ? 0.0 : x; }
/// By its bits: drivers make of comparisons what gives -0 for 0 and for NaN.
/// 0 for both, as in torch.
float tv_sign(float x) {
  const uint size = floatBitsToUint(x) & 0x7fffffffu;
  return size == 0u || size > 0x7f800000u ? 0.0 : floatBitsToInt(x) < 0 ? -1.0 : 1.0;
}
float tv_softshrink(float x, float limit) {
  if (x > limit) return x - limit;
  if (x < -limit) return x + limit;
  return tv_isnan(x) ? x : tv_copysign(0.0, x);
}

/// x · 2^k for |k| <= 252.
float tv_ldexp(float x, int k) {
  const int half_k = k >> 1;
  // `precise`: the two factors multiplied first would pass the range.
  precise float part = x * uintBitsToFloat(uint(127 + half_k) << 23);
  precise float y = part * uintBitsToFloat(uint(127 + k - half_k) << 23);
  return y;
}

/// a · b - product, exactly, for product = a · b rounded and no underflow (Dekker 1971). GLSL's fma
/// may round twice, so nothing here relies on it.
float tv_product_error(float a, float b, float product) {
  precise float ah = uintBitsToFloat(floatBitsToUint(a) & 0xfffff000u), al = a - ah;
  precise float bh = uintBitsToFloat(floatBitsToUint(b) & 0xfffff000u), bl = b - bh;
  precise float error = ((ah * bh - product) + ah * bl + al * bh) + al * bl;
  return error;
}

/// m · 2^e with 1 <= m < 2 for the bits of a positive finite number. By integers: arithmetic
/// flushes denormals on some devices.
float tv_normalised(uint bits, out int e) {
  const bool tiny = bits < 0x800000u;
  const uint all = tiny ? floatBitsToUint(float(bits)) : bits;  // x · 2^149
  e = int(all >> 23) - (tiny ? 276 : 127);
  return uintBitsToFloat(all & 0x7fffffu | 0x3f800000u);
}

/// Nearest, but for denormal results. GLSL promises 2.5 ULP, that only for 2^-126 <= |b| <= 2^126,
/// and nothing for infinities: drivers fold x / inf to 0. So mantissas are divided and corrected
/// once, and what is not a number between 0 and infinity goes by its bits.
float tv_div(float a, float b) {
  const uint sign = (floatBitsToUint(a) ^ floatBitsToUint(b)) & 0x80000000u;
  const uint ua = floatBitsToUint(a) & 0x7fffffffu, ub = floatBitsToUint(b) & 0x7fffffffu;
  int ea, eb;
  precise float n = tv_normalised(ua, ea), d = tv_normalised(ub, eb), q = n / d, back = q * d;
  precise float rest = (n - back) - tv_product_error(q, d, back);
  precise float better = q + rest / d;
  uint y = floatBitsToUint(tv_ldexp(better, clamp(ea - eb, -252, 252)));
  if (ua == 0u || ub == 0x7f800000u) y = 0u;
  if (ub == 0u || ua == 0x7f800000u) y = 0x7f800000u;
  const bool none = ua == ub && (ua == 0u || ua == 0x7f800000u);  // 0 / 0, inf / inf
  if (none || max(ua, ub) > 0x7f800000u) y = 0x7fc00000u;
  return uintBitsToFloat(sign | y);
}

/// roundEven(tv_div(a, b)), as quantisation has it. On a GPU by a product with GLSL's quotient
/// 1 / b where that lies too far from a half for its error to matter: within 3.5 ULP, 2^-21 of
/// itself. Where it does not, almost nowhere, in a branch: computed always, the exact quotient
/// costs an epilogue more than its product. A CPU driver would compute both branches.
float tv_div_round(float a, float b) {
#if TV_CPU
  return roundEven(tv_div(a, b));
#else
  const float size = abs(b);
  precise float q = a * (1.0 / b), whole = roundEven(q), off = abs(abs(q - whole) - 0.5);
  // False where anything is not finite. A quotient below 2^-20 may have been flushed to 0.
  const bool sure = size > 8.67361738e-19 && size < 1.15292150e18 && off > abs(q) * 9.53674316e-07;
  [[dont_flatten]] if (!sure) whole = roundEven(tv_div(a, b));
  return whole;
#endif
}

/// Nearest. GLSL's own is 1 / inversesqrt, 4.5 ULP.
float tv_sqrt(float x) {
  const uint bits = floatBitsToUint(x);
  int e;
  const float whole = tv_normalised(bits & 0x7fffffffu, e);
  precise float m = (e & 1) != 0 ? 2.0 * whole : whole, s = sqrt(m), square = s * s;
  precise float rest = (m - square) - tv_product_error(s, s, square);
  precise float better = s + 0.5 * rest / s;
  const float y = tv_ldexp(better, e >> 1);
  if ((bits & 0x7fffffffu) == 0u || bits == 0x7f800000u) return x;
  return bits > 0x7f800000u ? TV_NAN : y;
}

/// 1 / sqrt(x). 1 ULP.
float tv_rsqrt(float x) {
  const uint bits = floatBitsToUint(x);
  int e;
  const float whole = tv_normalised(bits & 0x7fffffffu, e);
  precise float m = (e & 1) != 0 ? 2.0 * whole : whole, r = inversesqrt(m);
  // One Newton step, 1 - m r r without its roundings.
  precise float root = m * r, one = root * r;
  precise float rest =
      ((1.0 - one) - tv_product_error(root, r, one)) - tv_product_error(m, r, root) * r;
  precise float better = r + 0.5 * r * rest;
  const float y = tv_ldexp(better, -(e >> 1));
  if ((bits & 0x7fffffffu) == 0u) return tv_copysign(TV_INF, x);
  return bits > 0x7f800000u ? TV_NAN : bits == 0x7f800000u ? 0.0 : y;
}

/// Exact remainder with the sign of a: long division of the mantissas, 8 bits of quotient a round.
float tv_fmod(float a, float b) {
  const uint ua = floatBitsToUint(a) & 0x7fffffffu, ub = floatBitsToUint(b) & 0x7fffffffu;
  const uint ma = ua < 0x800000u ? ua : (ua & 0x7fffffu) | 0x800000u;
  const uint mb = max(ub < 0x800000u ? ub : (ub & 0x7fffffu) | 0x800000u, 1u);
  const int eb = max(int(ub >> 23), 1);
  uint r = ma % mb;
  for (int n = max(int(ua >> 23), 1) - eb; n > 0 && r != 0u; n -= 8) r = (r << min(n, 8)) % mb;
  const float y = ua < ub ? a : tv_copysign(tv_ldexp(float(r), eb - 150), a);
  return ua >= 0x7f800000u || ub > 0x7f800000u || ub == 0u ? TV_NAN : y;
}

/// Remainder with the sign of b.
float tv_remainder(float a, float b) {
  const float r = tv_fmod(a, b);
  return r != 0.0 && (r < 0.0) != (b < 0.0) ? r + b : r;
}

/// floor(a / b), from the exact remainder.
float tv_div_floor(float a, float b) {
  if (b == 0.0) return tv_div(a, b);
  const float r = tv_fmod(a, b);
  float q = tv_div(a - r, b);
  q = r != 0.0 && (b < 0.0) != (r < 0.0) ? q - 1.0 : q;
  const float down = floor(q);
  const float whole = q - down > 0.5 ? down + 1.0 : down;
  return q == 0.0 ? tv_copysign(0.0, tv_div(a, b)) : whole;
}

/// a + w · (b - a), from the nearer end.
float tv_lerp(float a, float b, float w) {
  precise float low = a + w * (b - a), high = b - (b - a) * (1.0 - w);
  return abs(w) < 0.5 ? low : high;
}

// Integers. Division by zero gives 0; tv_divisor says that it is an error.
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
int tv_gcd(int a, int b) {
  a = abs(a);
  b = abs(b);
  while (a != 0) {
    const int rest = tv_fmod(b, a);
    b = a;
    a = rest;
  }
  return b;
}
int tv_lcm(int a, int b) {
  const int g = tv_gcd(a, b);
  return g == 0 ? 0 : abs(tv_div_trunc(a, g) * b);
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
int64_t tv_gcd(int64_t a, int64_t b) {
  a = abs(a);
  b = abs(b);
  while (a != 0L) {
    const int64_t rest = tv_fmod(b, a);
    b = a;
    a = rest;
  }
  return b;
}
int64_t tv_lcm(int64_t a, int64_t b) {
  const int64_t g = tv_gcd(a, b);
  return g == 0L ? 0L : abs(tv_div_trunc(a, g) * b);
}
