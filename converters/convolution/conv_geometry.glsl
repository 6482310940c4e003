// Geometry of a convolution, also of a transposed one: that is a convolution with stride 1 of the
// input spread out `lhs_*` apart. Parameters come from add_geometry in convolution.h.

/// Where input coordinate `at` (spread out, may be outside) reads; false: padding or a gap.
bool conv_source(int at, uint lhs, uint size, out uint source) {
  const uint u = uint(at);  // a negative one becomes large
  source = u / lhs;
  return source * lhs == u && source < size;
}
