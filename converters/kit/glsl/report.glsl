// What kernels find wrong while they compute is kept in a variable and reported once, at the end:
// anything more at each place would make the unrolled kernels too large to compile.

layout(buffer_reference, scalar, buffer_reference_align = 4) buffer tv_ref_check { uint v[]; };

uint tv_bad_operand = 0u;  // 1 + the number of the last operand that was left, or one of these

const uint kTvPointer = 254u;      // a pointer left all operands
const uint kTvBadIndex = 253u;     // an index that names nothing
const uint kTvZeroDivisor = 252u;  // an integer is divided by 0
// kTvNot…: a weight has not what its packed form takes for granted; always reported.
const uint kTvNotTwoFour = 251u;   // a weight that is read as 2:4 sparse is not
const uint kTvNotFourBits = 250u;  // an element of a weight that is read as 4 bits is beyond them

void tv_check_report(tv_ref_check report, uint dispatch) {
  if (tv_bad_operand == 0u) return;
  if (atomicAdd(report.v[0], 1u) != 0u) return;
  report.v[1] = dispatch;
  report.v[2] = tv_bad_operand - 1u;
}
