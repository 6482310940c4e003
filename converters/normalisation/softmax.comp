// y = exp(x - max) / sum(exp(x - max)) along `count` elements that lie `inner` apart, or, with LOG,
// x - max - log(sum(…)). A row that holds a nan, or only -inf, is all nan.
//
// x: any type, taken as float; y: of x's shape. Rows are numbered (outer, inner). KEEP: an
// invocation keeps so many vectors of its row in registers (inner is 1, count a multiple of 4),
// else 0.
// Grid: as workgroup_reduction.glsl shares `rows` rows out.

#include "workgroup_reduction.glsl"

#if !PER_INVOCATION && !SUBGROUP
shared float partial_[LOCAL_X];
#endif

#define MINUS_INF uintBitsToFloat(0xff800000u)

float larger(float a, float b) { return a > b ? a : b; }
float plus(float a, float b) { return a + b; }

/// The largest v of the invocations of a row, and the sum; each of them gets it.
float largest_of_row(float v) {
#if !PER_INVOCATION
  TV_WORKGROUP_REDUCE(partial_, v, larger)
#endif
  return v;
}
float sum_of_row(float v) {
#if !PER_INVOCATION
  TV_WORKGROUP_REDUCE(partial_, v, plus)
#endif
  return v;
}

/// An invocation's elements (KEEP: vectors of four) of a row that begins at `start`: first, first +
/// step, ….
struct Part {
  uint start, first, step;
};

#if KEEP
// this invocation's vectors: x, then x - peak, then without LOG e to the power of that
vec4 kept[KEEP];

Part part_of(uint row, uint first, uint step) { return Part(row * count, first, step); }

uint column_of_kept(const Part part, uint k) { return 4u * (part.first + k * part.step); }

/// The largest of the invocation's elements, which it loads.
float largest_of(const Part part) {
  float most = MINUS_INF;
  [[unroll]] for (uint k = 0u; k < KEEP; k++) {
    const uint c = column_of_kept(part, k);
    kept[k] = vec4(MINUS_INF);
    if (c < count) kept[k] = vec4(x_load4(part.start + c));
    most = larger(most, larger(larger(kept[k].x, kept[k].y), larger(kept[k].z, kept[k].w)));
  }
  return most;
}

/// The sum of its powers.
float sum_of(const Part part, float most) {
  float sum = 0.0;
  [[unroll]] for (uint k = 0u; k < KEEP; k++) {
    if (column_of_kept(part, k) < count) {
      kept[k] -= most;
      const vec4 e = vec4(tv_exp(kept[k].x), tv_exp(kept[k].y), tv_exp(kept[k].z),
          tv_exp(kept[k].w));
      sum += (e.x + e.y) + (e.z + e.w);
#if !LOG
      kept[k] = e;
#endif
    }
  }
  return sum;
}

void store(const Part part, float most, float sum) {
#if LOG
  const float offset = -tv_log(sum);
#else
  const float factor = tv_div(1.0, sum);
#endif
  [[unroll]] for (uint k = 0u; k < KEEP; k++) {
    const uint c = column_of_kept(part, k);
    if (c < count) {
#if LOG
      y_store4(part.start + c, y_V(kept[k] + offset));
#else
      y_store4(part.start + c, y_V(kept[k] * factor));
#endif
    }
  }
}
#else
Part part_of(uint row, uint first, uint step) {
  const uint outer = row / inner;
  return Part(outer * count * inner + (row - outer * inner), first, step);
}

float largest_of(const Part part) {
  float most = MINUS_INF;
  for (uint c = part.first; c < count; c += part.step) {
    most = larger(most, float(x_load(part.start + c * inner)));
  }
  return most;
}

// Blocks of 64 keep the rounding error of a long sum small.
float sum_of(const Part part, float most) {
  float sum = 0.0;
  for (uint c = part.first; c < count;) {
    const uint stop = min(count, c + 64u * part.step);
    float block = 0.0;
    for (; c < stop; c += part.step) block += tv_exp(float(x_load(part.start + c * inner)) - most);
    sum += block;
  }
  return sum;
}

void store(const Part part, float most, float sum) {
#if LOG
  const float shift = tv_log(sum);
#else
  const float scale = tv_div(1.0, sum);
#endif
  for (uint c = part.first; c < count; c += part.step) {
    const uint at = part.start + c * inner;
#if LOG
    y_store(at, y_T((float(x_load(at)) - most) - shift));
#else
    y_store(at, y_T(tv_exp(float(x_load(at)) - most) * scale));
#endif
  }
}
#endif

void main() {
  TV_ROW
  if (row >= rows) return;
  const Part part = part_of(row, first, step);
  const float most = largest_of_row(largest_of(part));
  const float sum = sum_of_row(sum_of(part, most));
  store(part, most, sum);
}
