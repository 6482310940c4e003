// The gradient of segment_reduce.comp: y[o, k, i] from the gradient g, the result r and the values x of
// the segment that holds k, as PyTorch has it: equal largest (smallest) values share a gradient that is
// positive and each have one that is not; what is in no segment has none. One result an invocation.

bool counts_as(float v, float result) { return tv_isnan(v) || v == result; }

void main() {
  const uint id = tv_group() * LOCAL_X + gl_LocalInvocationID.x;
  if (id >= elements) return;
  const uint line = id / inner, i = id - line * inner, o = line / count, k = line - o * count;
  int64_t from = 0, to = 0;
  uint s = 0u;
  for (; s < segments; ++s) {
#if LENGTHS
    from = to;
    to = from + int64_t(bounds_load(o * segments + s));
#else
    from = int64_t(bounds_load(o * (segments + 1u) + s));
    to = int64_t(bounds_load(o * (segments + 1u) + s + 1u));
#endif
    if (int64_t(k) >= from && int64_t(k) < to) break;
  }
  if (s == segments) {
    y_store(id, 0.0);
    return;
  }
  const uint first = uint(max(from, int64_t(0))), last = uint(min(to, int64_t(count)));
  const uint at = (o * segments + s) * inner + i;
  const float g = g_load(at), v = x_load(id);
#if KIND == 0
  const float result = g;
#elif KIND == 1
  const float result = tv_div(g, float(last - first));
#elif KIND == 2
  float others = START;
  if (tv_isnan(v) || v == 0.0) {
    for (uint j = first; j < last; ++j) {
      if (j != k) others *= x_load((o * count + j) * inner + i);
    }
  } else {
    others = tv_div(r_load(at), v);
  }
  const float result = g * others;
#else
  const float most = r_load(at);
  float result = 0.0;
  if (counts_as(v, most)) {
    uint alike = 0u;
    if (g > 0.0) {
      for (uint j = first; j < last; ++j) {
        alike += counts_as(x_load((o * count + j) * inner + i), most) ? 1u : 0u;
      }
    }
    result = alike > 1u ? tv_div(g, float(alike)) : g;
  }
#endif
  y_store(id, result);
}
