// Gradient of softmax, x' = (g - sum(g y)) y, or with LOG of log_softmax, x' = g - exp(y) sum(g),
// along `count` elements that lie `inner` apart; g: gradient of the result y.
//
// Grid: as tree.glsl shares rows out, `rows` of them, numbered (outer, inner).

#include "tree.glsl"

#if !LANE && !SUBGROUP
shared float tree_[LOCAL_X];
#endif

float plus(float a, float b) { return a + b; }

void main() {
  TV_ROW
  if (row >= rows) return;
  const uint outer = row / inner;
  const uint start = outer * count * inner + (row - outer * inner);

  float sum = 0.0;
  for (uint c = first; c < count;) {
    const uint stop = min(count, c + 64u * step);
    float block = 0.0;
    for (; c < stop; c += step) {
      const uint at = start + c * inner;
#if LOG
      block += g_load(at);
#else
      block += g_load(at) * y_load(at);
#endif
    }
    sum += block;
  }
#if !LANE
  TV_TREE(tree_, sum, plus)
#endif

  for (uint c = first; c < count; c += step) {
    const uint at = start + c * inner;
#if LOG
    gx_store(at, g_load(at) - tv_exp(y_load(at)) * sum);
#else
    gx_store(at, (g_load(at) - sum) * y_load(at));
#endif
  }
}
