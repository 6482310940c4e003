// The second launch of softmax.comp for long rows on CPU drivers: what the blocks of a row have
// (softmax_blocks.comp) makes totals[2 row], its largest element, and totals[2 row + 1], the
// reciprocal of its sum; with LOG the sum's logarithm. Grid: one invocation a row.

void main() {
  const uint row = tv_group() * LOCAL_X + gl_LocalInvocationID.x;
  if (row >= rows) return;
  const uint first = row * blocks, behind = first + blocks;
  float peak = uintBitsToFloat(0xff800000u), sum = 0.0;
  for (uint i = first; i < behind; i++) peak = max(peak, sums_raw(2u * i));
  for (uint i = first; i < behind; i++) {
    sum = fma(sums_raw(2u * i + 1u), tv_exp(sums_raw(2u * i) - peak), sum);
  }
  totals_store(2u * row, peak);
#if LOG
  totals_store(2u * row + 1u, tv_log(sum));
#else
  totals_store(2u * row + 1u, tv_div(1.0, sum));
#endif
}
