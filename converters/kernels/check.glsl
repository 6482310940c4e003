// Debug builds: every access of an operand is compared with the elements it may touch.

layout(buffer_reference, scalar, buffer_reference_align = 4) buffer tv_ref_check { uint v[]; };

/// `i` where elements i … i+n-1 are below `limit`; else 0, after a report (the first one stays).
uint tv_check_access(tv_ref_check report, uint dispatch, uint operand, uint i, uint n, uint limit) {
  if (i < limit && n <= limit - i) return i;
  if (atomicAdd(report.v[0], 1u) == 0u) {
    report.v[1] = dispatch;
    report.v[2] = operand;
    report.v[3] = i;
    report.v[4] = limit;
  }
  return 0u;
}
