// y[o, c, k] = sum of x[o, 0 … c, k]. Float sums carry a compensation (Kahan), so that the error
// does not grow with the length. One line of `count` elements, `inner` apart, an invocation.

void main() {
  const uint id = tv_group() * LOCAL_X + gl_LocalInvocationID.x;
  if (id >= rows) return;
  const uint outer = id / inner;
  const uint start = outer * count * inner + (id - outer * inner);
  ACC sum = ACC(0);
#if FLOAT_ACC
  float lost = 0.0;
#endif
  for (uint c = 0u; c < count; ++c) {
    const uint at = start + c * inner;
#if FLOAT_ACC
    const float v = float(x_load(at));
    precise float term = v - lost;
    precise float total = sum + term;
    precise float kept = total - sum;
    precise float next = kept - term;
    // An infinite sum would turn its own compensation into a nan.
    lost = tv_isinf(total) ? 0.0 : next;
    sum = total;
#else
    sum += ACC(x_load(at));
#endif
    y_store(at, y_T(sum));
  }
}
