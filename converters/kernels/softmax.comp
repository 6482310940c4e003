// y = exp(x - max) / sum(exp(x - max)) along `count` elements that lie `inner` apart, or, with LOG,
// x - max - log(sum(…)). A row that holds a nan, or only -inf, is all nan.
//
// x: any type, taken as float; y: of x's shape. Rows are numbered (outer, inner).
// Grid: LANE: an invocation, else a workgroup, for each of `rows` rows.

#include "tree.glsl"

#if !LANE && !SUBGROUP
shared float tree_[LOCAL_X];
#endif

float larger(float a, float b) { return a > b ? a : b; }
float plus(float a, float b) { return a + b; }

void main() {
#if LANE
  const uint row = tv_group() * LOCAL_X + gl_LocalInvocationID.x;
  const uint first = 0u, step = 1u;
#else
  const uint row = tv_group();
  const uint first = gl_LocalInvocationID.x, step = LOCAL_X;
#endif
  if (row >= rows) return;
  const uint outer = row / inner;
  const uint start = outer * count * inner + (row - outer * inner);

  float most = uintBitsToFloat(0xff800000u);
  for (uint c = first; c < count; c += step) most = larger(most, float(x_load(start + c * inner)));
#if !LANE
  TV_TREE(tree_, most, larger)
#endif

  // Blocks of 64 keep the rounding error of a long sum small.
  float sum = 0.0;
  for (uint c = first; c < count;) {
    const uint stop = min(count, c + 64u * step);
    float block = 0.0;
    for (; c < stop; c += step) block += tv_exp(float(x_load(start + c * inner)) - most);
    sum += block;
  }
#if !LANE
  TV_TREE(tree_, sum, plus)
#endif

#if LOG
  const float shift = tv_log(sum);
  for (uint c = first; c < count; c += step) {
    const uint at = start + c * inner;
    y_store(at, y_T((float(x_load(at)) - most) - shift));
  }
#else
  const float scale = tv_div(1.0, sum);
  for (uint c = first; c < count; c += step) {
    const uint at = start + c * inner;
    y_store(at, y_T(tv_exp(float(x_load(at)) - most) * scale));
  }
#endif
}
