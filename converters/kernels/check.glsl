// Debug builds: every access of an operand is compared with the elements it may touch. What is wrong
// is kept in a variable and reported once, at the end: anything more at each access would make the
// unrolled kernels too large to compile.

layout(buffer_reference, scalar, buffer_reference_align = 4) buffer tv_ref_check { uint v[]; };

uint tv_bad_operand = 0u;  // 1 + the number of the last operand that was left

/// `i`, or the nearest value so that elements i … i+n-1 are below `limit`.
uint tv_check(uint operand, uint i, uint n, uint limit) {
  tv_bad_operand = i <= limit - n && n <= limit ? tv_bad_operand : operand + 1u;
  return min(i, limit - n);
}

const uint kTvPointer = 254u;  // stands for an operand where a pointer left all of them

void tv_check_report(tv_ref_check report, uint dispatch) {
  if (tv_bad_operand == 0u) return;
  if (atomicAdd(report.v[0], 1u) != 0u) return;
  report.v[1] = dispatch;
  report.v[2] = tv_bad_operand - 1u;
}
