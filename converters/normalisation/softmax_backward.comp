// Gradient of softmax, x' = (g - sum(g y)) y, or with LOG of log_softmax, x' = g - exp(y) sum(g),
// along `count` elements that lie `inner` apart; g: gradient of the result y.
//
// Where one y is nearly 1, g - sum(g y) cancels. So the mean is taken in two steps, as those of
// variances are: what the first leaves, sum((g - first) y), is small and nearly exact. That needs a
// y whose sum is 1 but for rounding; any other has the plain formula.
//
// Grid: as workgroup_reduction.glsl shares rows out, `rows` of them, numbered (outer, inner).

#include "workgroup_reduction.glsl"

#if LOG
#define sum_T float
#else
#define sum_T vec2  // of g y, and of y
#endif

#if !PER_INVOCATION && !SUBGROUP
shared sum_T partial_[LOCAL_X];
#endif

sum_T plus(sum_T a, sum_T b) { return a + b; }

// 2^-19, that of a softmax's sum: the fewer invocations share a row, the more each adds up, and
// rows of 2053 elements reach 2^-20 with 4 or 8 of them.
const float kRounding = 1.9073486328125e-6;

/// Of every step-th element of the row that begins at `start`, from the first-th on; long rows in
/// blocks of 64.
sum_T sum_of(uint start, uint first, uint step) {
  sum_T sum = sum_T(0.0);
  for (uint c = first; c < count;) {
    const uint stop = min(count, c + 64u * step);
    sum_T block = sum_T(0.0);
    for (; c < stop; c += step) {
      const uint at = start + c * inner;
#if LOG
      block += g_load(at);
#else
      const float y = y_load(at);
      block += vec2(g_load(at) * y, y);
#endif
    }
    sum += block;
  }
  return sum;
}

#if !LOG
/// What `mean` leaves of it: the sum of (g - mean) y.
float left_of(uint start, uint first, uint step, float mean) {
  float left = 0.0;
  for (uint c = first; c < count;) {
    const uint stop = min(count, c + 64u * step);
    float block = 0.0;
    for (; c < stop; c += step) {
      const uint at = start + c * inner;
      block += (g_load(at) - mean) * y_load(at);
    }
    left += block;
  }
  return left;
}
#endif

void main() {
  TV_ROW
  if (row >= rows) return;
  const uint outer = row / inner;
  const uint start = outer * count * inner + (row - outer * inner);

  sum_T sum = sum_of(start, first, step);
#if !PER_INVOCATION
  TV_WORKGROUP_REDUCE(partial_, sum, plus)
#endif

#if !LOG
  sum_T rest = sum_T(0.0);
  rest.x = left_of(start, first, step, sum.x);
#if !PER_INVOCATION
  TV_WORKGROUP_REDUCE(partial_, rest, plus)
#endif
  if (!(abs(sum.y - 1.0) <= kRounding && tv_isfinite(rest.x))) rest.x = 0.0;
#endif

  for (uint c = first; c < count; c += step) {
    const uint at = start + c * inner;
#if LOG
    gx_store(at, g_load(at) - tv_exp(y_load(at)) * sum);
#else
    precise float above = g_load(at) - sum.x;
    above -= rest.x;
    gx_store(at, above * y_load(at));
#endif
  }
}
