// The ends of a transform's lines: x and y are [outer, n_in or n_out, inner], of complex numbers
// (two floats each), real ones, or, x, the first half of a Hermitian line of n.
//
// IN, OUT: 0 real, 1 complex, 2 half, 3 nothing. NORM: 0 none, 1 divides by the square root of
// `count`, 2 by count.

#if IN != 3
/// Element i of line (o, in_).
vec2 tv_read(uint o, uint i, uint in_) {
#if IN == 0
  return vec2(x_load((o * n_in + i) * inner + in_), 0.0);
#elif IN == 1
  const uint e = 2u * ((o * n_in + i) * inner + in_);
  return vec2(x_load(e), x_load(e + 1u));
#else
  const bool mirrored = i > n / 2u;
  const uint at = min(mirrored ? n - i : i, n_in - 1u), e = 2u * ((o * n_in + at) * inner + in_);
  return vec2(x_load(e), mirrored ? -x_load(e + 1u) : x_load(e + 1u));
#endif
}
#endif

void tv_write(uint o, uint i, uint in_, vec2 v) {
  if (i >= n_out) return;
#if NORM == 1
  v *= tv_div(1.0, tv_sqrt(float(count)));
#elif NORM == 2
  v *= tv_div(1.0, float(count));
#endif
  const uint e = (o * n_out + i) * inner + in_;
#if OUT == 0
  y_store(e, v.x);
#else
  y_store(2u * e, v.x);
  y_store(2u * e + 1u, v.y);
#endif
}
