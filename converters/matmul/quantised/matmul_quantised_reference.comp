// y[m][n] = sum over k of a[m][k] * weight[n][k], of a quantised matrix (quantised_weight.glsl);
// one output an invocation.
//
// a: any strides. Blocks of 32 keep the rounding error of sums small.
// Grid: one invocation for each output.

#include "quantised_weight.glsl"

void main() {
  const uint i = tv_group() * LOCAL_X + gl_LocalInvocationID.x;
  const uint m = i / n_count, n = i - m * n_count;
  if (i >= total) return;
  uint at = m * a_m;
  float sum = 0.0;
  for (uint k = 0u; k < k_count;) {
    const uint stop = min(k_count, k + 32u);
    float block = 0.0;
    for (; k < stop; k++) {
      block = fma(float(a_raw(at)), quantised_weight(n, k), block);
      at += a_k;
    }
    sum += block;
  }
  y_store(i, y_T(sum));
}
