// Resizing along one dimension alone, or (TRANSPOSED) its gradient: what each source element gave
// to the outputs, added in ascending order of the outputs.
//
// y[o, i, k] = Σ_j weight(i, j) x[o, j, k], x: [·, in_size, inner], y: [·, out_size, inner];
// TRANSPOSED: y[o, j, k] = Σ_i weight(i, j) x[o, i, k] the other way around.
// FILTER 0: the weights of upsample_taps.glsl; else torch's anti-aliasing: a filter over FILTER
// source elements, widened by the scale where that shrinks, normalised: triangle, cubic, Lanczos.
// For its gradient `totals` has the sum of each output's weights, which TOTALS writes to y. One
// element of y an invocation. Defines: those of upsample_taps.glsl, FILTER, TRANSPOSED, TOTALS.

#include "upsample_taps.glsl"

#if FILTER == 2
float filter_at(float x) { return max(1.0 - abs(x), 0.0); }
#elif FILTER == 4
float filter_at(float x) {
  const float a = -0.5, d = abs(x);
  if (d < 1.0) return ((a + 2.0) * d - (a + 3.0)) * d * d + 1.0;
  return d < 2.0 ? (((d - 5.0) * d + 8.0) * d - 4.0) * a : 0.0;
}
#elif FILTER == 6
float sinc(float x) { return x == 0.0 ? 1.0 : tv_sin(x * 3.14159274) / (x * 3.14159274); }
float filter_at(float x) { return abs(x) < 3.0 ? sinc(x) * sinc(x / 3.0) : 0.0; }
#endif

#if FILTER != 0
struct Window {
  uint first, count;
  float centre, shrink;
};

Window window_of(uint o, float pace) {
  const float reach = 0.5 * float(FILTER) * max(pace, 1.0);
  Window w;
#if COPIES
  if (pace == ITSELF) return Window(o, 1u, float(o) + 0.5, 1.0);
#endif
  w.centre = pace * (float(o) + 0.5);
  w.shrink = pace >= 1.0 ? tv_div(1.0, pace) : 1.0;
  w.first = uint(max(w.centre - reach + 0.5, 0.0));
  const int end = min(int(w.centre + reach + 0.5), int(in_size));
  w.count = uint(clamp(end - int(w.first), 0, int(ceil(reach)) * 2 + 1));
  return w;
}

float weight_at(Window w, uint j) {
  return filter_at((float(j) - w.centre + 0.5) * w.shrink);
}

float total_of(Window w) {
  float total = 0.0;
  for (uint j = 0u; j < w.count; ++j) total += weight_at(w, w.first + j);
  return total;
}
#endif

#if TRANSPOSED
/// The weight of source element j in output o.
float weight_of(uint o, uint j, float pace) {
#if FILTER == 0
  const Taps t = taps_of(o, in_size, pace);
  float sum = 0.0;
  [[unroll]] for (int k = 0; k < TAPS; ++k) sum += t.at[k] == j ? t.weight[k] : 0.0;
  return sum;
#else
  const Window w = window_of(o, pace);
  if (j < w.first || j >= w.first + w.count) return 0.0;
  return tv_div(weight_at(w, j), totals_load(o));
#endif
}

/// Outputs [x, y] that may look at source element j; those at the ends look at what lies outside,
/// too.
uvec2 outputs_of(uint j, float pace) {
#if FILTER == 0
  const float reach = TAPS == 4 ? 2.0 : 1.0;
#else
  const float reach = 0.5 * float(FILTER) * max(pace, 1.0) + 1.0;
#endif
#if COPIES
  if (pace == ITSELF) return uvec2(j, j);
#endif
  if (!(pace > 0.0)) return uvec2(0u, out_size - 1u);
  const float most = float(out_size - 1u);
  const float low = tv_div(float(j) + 0.5 - reach, pace) - 3.0;
  const float high = tv_div(float(j) + 0.5 + reach, pace) + 3.0;
  return uvec2(j == 0u ? 0u : uint(clamp(low, 0.0, most)),
               j + 1u == in_size ? out_size - 1u : uint(clamp(high, 0.0, most)));
}
#endif

void main() {
  const uint id = tv_group() * LOCAL_X + gl_LocalInvocationID.x;
  if (id >= elements) return;
  const float pace = step_of(in_size, out_size, scale);
#if TOTALS
  y_store(id, total_of(window_of(id, pace)));
#else
  const uint line = id / inner, k = id - line * inner;
#if TRANSPOSED
  const uint outer = line / in_size, j = line - outer * in_size;
  const uvec2 range = outputs_of(j, pace);
  float sum = 0.0;
  for (uint o = range.x; o <= range.y; ++o) {
    const float weight = weight_of(o, j, pace);
    if (weight != 0.0) sum += weight * x_load((outer * out_size + o) * inner + k);
  }
  y_store(id, y_T(sum));
#else
  const uint outer = line / out_size, o = line - outer * out_size;
#if FILTER != 0
  const Window w = window_of(o, pace);
  const float total = total_of(w);
  float sum = 0.0;
  for (uint j = w.first; j < w.first + w.count; ++j) {
    sum += tv_div(weight_at(w, j), total) * x_load((outer * in_size + j) * inner + k);
  }
#else
  const Taps t = taps_of(o, in_size, pace);
  float sum = 0.0;
  [[unroll]] for (int j = 0; j < TAPS; ++j) {
    sum += t.weight[j] * x_load((outer * in_size + t.at[j]) * inner + k);
  }
#endif
  y_store(id, y_T(sum));
#endif
#endif
}
