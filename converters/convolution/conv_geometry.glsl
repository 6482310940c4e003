// Geometry of a convolution, also of a transposed one: that is a convolution with stride 1 of the
// input spread out `lhs_*` apart. Parameters come from add_geometry in convolution.h.

#ifdef DEPTH
#define CONV_TAPS (k_d * k_h * k_w)
#define CONV_PIXELS (out_d * out_h * out_w)
#define CONV_WEIGHT(ic, t) ((ic) * w_ic + (t).d * w_d + (t).h * w_h + (t).w * w_w)
#else
#define CONV_TAPS (k_h * k_w)
#define CONV_PIXELS (out_h * out_w)
#define CONV_WEIGHT(ic, t) ((ic) * w_ic + (t).h * w_h + (t).w * w_w)
#endif

/// Tap `tap` of a window.
struct ConvTap {
  uint d, h, w;
};
ConvTap conv_tap(uint tap) {
  ConvTap t;
  t.d = 0u;
#ifdef DEPTH
  t.d = tap / (k_h * k_w);
  tap -= t.d * (k_h * k_w);
#endif
  t.h = tap / k_w;
  t.w = tap - t.h * k_w;
  return t;
}

/// Where input coordinate `at` (spread out, may be outside) reads; false: padding or a gap.
bool conv_source(int at, uint lhs, uint size, out uint source) {
  const uint u = uint(at);  // a negative one becomes large
  source = u / lhs;
  return source * lhs == u && source < size;
}
