// w[k] = exp(-2 pi i k / n) for k < n; with CHIRP exp(-pi i k^2 / n). The angle is reduced to an
// eighth of a turn in integers. n < 2^27. One number an invocation.

/// k * k mod m.
uint square_mod(uint k, uint m) {
  uint high, low;
  umulExtended(k, k, high, low);
  uint rest = high % m;
  for (uint bit = 0u; bit < 32u && high != 0u; ++bit) {
    rest = (2u * rest + (low >> (31u - bit) & 1u)) % m;
  }
  return high == 0u ? low % m : rest;
}

void main() {
  const uint id = tv_group() * LOCAL_X + gl_LocalInvocationID.x;
  if (id >= n) return;
#if CHIRP
  const uint turn = 2u * n, k = square_mod(id, turn);
#else
  const uint turn = n, k = id;
#endif
  const uint eighth = 8u * k / turn, rest = 8u * k - eighth * turn;
  const bool odd = (eighth & 1u) != 0u;
  const float a = 0.785398163 * tv_div(float(odd ? turn - rest : rest), float(turn));
  const float c = tv_cos_core(a), s = odd ? -tv_sin_core(a) : tv_sin_core(a);
  const uint quarter = (eighth + 1u) / 2u & 3u;
  const vec2 unit = quarter == 0u ? vec2(c, s) : quarter == 1u ? vec2(-s, c)
                  : quarter == 2u ? vec2(-c, -s) : vec2(s, -c);
  w_store(2u * id, unit.x);
  w_store(2u * id + 1u, -unit.y);
}
