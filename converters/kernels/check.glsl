// Debug builds: every access of an operand is compared with the elements it may touch. What is wrong
// is kept in variables and reported once, at the end: a branch at each access would make the kernels
// too large to compile.

layout(buffer_reference, scalar, buffer_reference_align = 4) buffer tv_ref_check { uint v[]; };

uint tv_bad_count = 0u;
uvec3 tv_bad = uvec3(0u);  // operand, element, elements allowed: of the first one

/// `i` where elements i … i+n-1 are below `limit`; else 0, and it is noted.
uint tv_check(uint operand, uint i, uint n, uint limit) {
  const bool ok = i < limit && n <= limit - i;
  tv_bad = ok || tv_bad_count != 0u ? tv_bad : uvec3(operand, i, limit);
  tv_bad_count += ok ? 0u : 1u;
  return ok ? i : 0u;
}

void tv_check_report(tv_ref_check report, uint dispatch) {
  if (tv_bad_count == 0u) return;
  if (atomicAdd(report.v[0], tv_bad_count) != 0u) return;
  report.v[1] = dispatch;
  report.v[2] = tv_bad.x;
  report.v[3] = tv_bad.y;
  report.v[4] = tv_bad.z;
}
