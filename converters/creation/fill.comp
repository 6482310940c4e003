// out[i] = start + i · step. KIND 0: 32-bit integers, 1: 64-bit integers, 2: floats in two parts,
// 3: one number of any type, `step` being 0. Grid: flat; each invocation writes UNROLL elements,
// one workgroup's width apart.

#if KIND == 1
int64_t value(uint i) { return start + int64_t(i) * step; }
#elif KIND == 3
out_T value(uint i) { return out_T(start); }
#elif KIND == 2
float value(uint i) {
  const float n = float(i);
  precise float product = n * step;
  precise float low = tv_product_error(n, step, product) + (n * step_low + start_low);
  precise float sum = start + product;
  precise float part = sum - start;
  precise float error = (start - (sum - part)) + (product - part);
  return sum + (error + low);
}
#else
int value(uint i) { return int(uint(start) + i * uint(step)); }
#endif

void main() {
  const uint first = tv_group() * (LOCAL_X * UNROLL) + gl_LocalInvocationID.x;
  for (uint k = 0; k < UNROLL; ++k) {
    const uint i = first + k * LOCAL_X;
    if (i < numel) out_store(i, out_T(value(i)));
  }
}
