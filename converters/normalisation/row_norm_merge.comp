// The second launch of row_norm.comp for long rows on CPU drivers: what the blocks of a row have
// (row_norm_blocks.comp) makes its mean and 1 / its deviation, moments[2 row] and the next.
// Blocks have `width` elements, the last of a segment what is left of `count`.
// Grid: one invocation a row.

void main() {
  const uint row = tv_group() * LOCAL_X + gl_LocalInvocationID.x;
  if (row >= rows) return;
  const uint first = row * group_channels * blocks, behind = first + group_channels * blocks;
  const float all = float(count) * float(group_channels);
  const float last = float(count - (blocks - 1u) * width);
  float mean = 0.0, spread = 0.0;
#if !RMS
  for (uint i = first, b = 0u; i < behind; i++) {
    b = b + 1u == blocks ? 0u : b + 1u;
    mean = fma(sums_raw(2u * i), b == 0u ? last : float(width), mean);
  }
  mean = tv_div(mean, all);
#endif
  for (uint i = first, b = 0u; i < behind; i++) {
    b = b + 1u == blocks ? 0u : b + 1u;
    const float d = sums_raw(2u * i) - mean;
    spread += fma(d * d, b == 0u ? last : float(width), sums_raw(2u * i + 1u));
  }
  const float inverse = tv_rsqrt(tv_div(spread, all) + eps);
  moments_store(2u * row, mean);
  moments_store(2u * row + 1u, inverse);
#if MEAN
  mean_store(row, mean);
#endif
#if RSTD
  rstd_store(row, inverse);
#endif
}
