// The end of attention_decode.comp: y = Σ part · e^(most of the range - most of all) / the same of
// the sums, over SPLITS ranges of keys, in order. part: [SPLITS, rows, DV]; sums: [SPLITS, rows,
// 2]. Defines INVERSE and RESULT as in attention_flash.comp. Grid: flat, one element of y an
// invocation.

void main() {
  const uint id = tv_group() * LOCAL_X + gl_LocalInvocationID.x;
  if (id >= rows * DV) return;
  const uint row = id / DV;
  const float minus_inf = uintBitsToFloat(0xff800000u);
  float most = minus_inf;
  for (uint s = 0u; s < SPLITS; s++) most = max(most, sums_raw(2u * (s * rows + row)));
  const float shift = most == minus_inf ? 0.0 : most;
  float total = 0.0, o = 0.0;
  for (uint s = 0u; s < SPLITS; s++) {
    const uint at = s * rows + row;
    const float by = tv_exp(sums_raw(2u * at) - shift);
    total = fma(sums_raw(2u * at + 1u), by, total);
    o = fma(part_raw(at * DV + id % DV), by, o);
  }
  const float inverse = INVERSE(total);
  y_store(id, RESULT(float, o, inverse));
}
