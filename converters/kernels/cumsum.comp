// y[o, c, k] = sum of x[o, 0 … c, k]. Float sums carry a compensation (Kahan), so that the error
// does not grow with the length. One line of `count` elements, `inner` apart, an invocation;
// UNROLL elements an iteration, because CPU drivers end long loops.

struct State {
  ACC sum;
  float lost;
};

void take(uint at, inout State s) {
#if FLOAT_ACC
  const float v = float(x_load(at));
  precise float term = v - s.lost;
  precise float total = s.sum + term;
  precise float kept = total - s.sum;
  precise float next = kept - term;
  // An infinite sum would turn its own compensation into a nan.
  s.lost = tv_isinf(total) ? 0.0 : next;
  s.sum = total;
#else
  s.sum += ACC(x_load(at));
#endif
  y_store(at, y_T(s.sum));
}

void main() {
  const uint id = tv_group() * LOCAL_X + gl_LocalInvocationID.x;
  if (id >= rows) return;
  const uint outer = id / inner;
  const uint start = outer * count * inner + (id - outer * inner);
  State s = State(ACC(0), 0.0);
  uint c = 0u;
  for (; c + UNROLL <= count; c += UNROLL) {
    [[unroll]] for (uint j = 0u; j < UNROLL; ++j) take(start + (c + j) * inner, s);
  }
  for (; c < count; ++c) take(start + c * inner, s);
}
