// Debug builds: every access of an operand is compared with the elements it may touch; what is
// found is reported by report.glsl.

/// `i`, or the nearest value so that elements i … i+n-1 are below `limit`.
uint tv_check(uint operand, uint i, uint n, uint limit) {
  tv_bad_operand = i <= limit - n && n <= limit ? tv_bad_operand : operand + 1u;
  return min(i, limit - n);
}
