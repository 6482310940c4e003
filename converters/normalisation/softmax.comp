// y = exp(x - max) / sum(exp(x - max)) along `count` elements that lie `inner` apart, or, with LOG,
// x - max - log(sum(…)). A row that holds a nan, or only -inf, is all nan.
//
// x: any type, taken as float; y: of x's shape. Rows are numbered (outer, inner). KEEP: an invocation
// keeps so many vectors of its row in registers (inner is 1, count a multiple of 4), else 0.
// Grid: as workgroup_reduction.glsl shares `rows` rows out.

#include "workgroup_reduction.glsl"

#if !PER_INVOCATION && !SUBGROUP
shared float partial_[LOCAL_X];
#endif

float larger(float a, float b) { return a > b ? a : b; }
float plus(float a, float b) { return a + b; }

void main() {
  TV_ROW
  if (row >= rows) return;
#if KEEP
  const uint base = row * count;
  vec4 kept[KEEP];
  float peak = uintBitsToFloat(0xff800000u);
  [[unroll]] for (uint k = 0u; k < KEEP; k++) {
    const uint c = 4u * (first + k * step);
    kept[k] = vec4(uintBitsToFloat(0xff800000u));
    if (c < count) kept[k] = vec4(x_load4(base + c));
    peak = larger(peak, larger(larger(kept[k].x, kept[k].y), larger(kept[k].z, kept[k].w)));
  }
  TV_WORKGROUP_REDUCE(partial_, peak, larger)
  float weight = 0.0;
  [[unroll]] for (uint k = 0u; k < KEEP; k++) {
    if (4u * (first + k * step) < count) {
      kept[k] -= peak;
      const vec4 e = vec4(tv_exp(kept[k].x), tv_exp(kept[k].y), tv_exp(kept[k].z), tv_exp(kept[k].w));
      weight += (e.x + e.y) + (e.z + e.w);
#if !LOG
      kept[k] = e;
#endif
    }
  }
  TV_WORKGROUP_REDUCE(partial_, weight, plus)
#if LOG
  const float offset = -tv_log(weight);
#else
  const float factor = tv_div(1.0, weight);
#endif
  [[unroll]] for (uint k = 0u; k < KEEP; k++) {
    const uint c = 4u * (first + k * step);
    if (c < count) {
#if LOG
      y_store4(base + c, y_V(kept[k] + offset));
#else
      y_store4(base + c, y_V(kept[k] * factor));
#endif
    }
  }
#else
  const uint outer = row / inner;
  const uint start = outer * count * inner + (row - outer * inner);

  float most = uintBitsToFloat(0xff800000u);
  for (uint c = first; c < count; c += step) most = larger(most, float(x_load(start + c * inner)));
#if !PER_INVOCATION
  TV_WORKGROUP_REDUCE(partial_, most, larger)
#endif

  // Blocks of 64 keep the rounding error of a long sum small.
  float sum = 0.0;
  for (uint c = first; c < count;) {
    const uint stop = min(count, c + 64u * step);
    float block = 0.0;
    for (; c < stop; c += step) block += tv_exp(float(x_load(start + c * inner)) - most);
    sum += block;
  }
#if !PER_INVOCATION
  TV_WORKGROUP_REDUCE(partial_, sum, plus)
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
#endif
}
