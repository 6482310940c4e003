// The gradient of segment_reduce.comp: y[o, k, i] from the gradient g, the result r and the values
// x of the segment that holds k, as PyTorch has it: equal largest (smallest) values share a
// gradient that is positive and each have one that is not; what is in no segment has none. One
// result an invocation.

bool counts_as(float v, float result) { return tv_isnan(v) || v == result; }

/// Elements first … last - 1 of line o, segment s; s is `segments` where there is none.
struct Segment {
  uint s, first, last;
};

/// The segment that holds element k of line o.
Segment segment_of(uint o, uint k) {
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
  return Segment(s, uint(max(from, int64_t(0))), uint(min(to, int64_t(count))));
}

/// The gradient of element k, v, from that of its segment.
float gradient(Segment segment, uint o, uint k, uint i, float v, float g, uint result_at) {
#if KIND == 0
  return g;
#elif KIND == 1
  return tv_div(g, float(segment.last - segment.first));
#elif KIND == 2
  if (!(tv_isnan(v) || v == 0.0)) return g * tv_div(r_load(result_at), v);
  float others = START;
  for (uint j = segment.first; j < segment.last; ++j) {
    if (j != k) others *= x_load((o * count + j) * inner + i);
  }
  return g * others;
#else
  const float most = r_load(result_at);
  if (!counts_as(v, most)) return 0.0;
  uint alike = 0u;
  if (g > 0.0) {
    for (uint j = segment.first; j < segment.last; ++j) {
      alike += counts_as(x_load((o * count + j) * inner + i), most) ? 1u : 0u;
    }
  }
  return alike > 1u ? tv_div(g, float(alike)) : g;
#endif
}

void main() {
  const uint id = tv_group() * LOCAL_X + gl_LocalInvocationID.x;
  if (id >= elements) return;
  const uint line = id / inner, i = id - line * inner, o = line / count, k = line - o * count;
  const Segment segment = segment_of(o, k);
  if (segment.s == segments) {
    y_store(id, 0.0);
    return;
  }
  const uint at = (o * segments + segment.s) * inner + i;
  y_store(id, gradient(segment, o, k, i, x_load(id), g_load(at), at));
}
