// y[o, s, i] = the sum, mean, product, largest or smallest (KIND 0 to 4) of x[o, k, i] over segment
// s: the k from bounds[o, s] up to bounds[o, s + 1], or, with LENGTHS, as many as lengths[o, s]
// says, one segment after the other; these make up the dimension but where UNSAFE. `start` is there
// before the first where INITIAL, else what the operation gives for nothing. One result an
// invocation.

void main() {
  const uint id = tv_group() * LOCAL_X + gl_LocalInvocationID.x;
  if (id >= elements) return;
  const uint line = id / inner, i = id - line * inner, o = line / segments, s = line - o * segments;
#if LENGTHS
  int64_t from = 0;
  for (uint k = 0u; k < s; ++k) from += int64_t(bounds_load(o * segments + k));
  const int64_t to = from + int64_t(bounds_load(line));
#else
  const uint at = o * (segments + 1u) + s;
  const int64_t from = int64_t(bounds_load(at)), to = int64_t(bounds_load(at + 1u));
#endif
  const uint first = tv_place(from, count + 1u), last = tv_place(to, count + 1u);
#if LENGTHS
  tv_bad_index(to < from || UNSAFE == 0 && s + 1u == segments && to != int64_t(count));
#endif
#if KIND == 2
  float result = INITIAL != 0 ? start : 1.0;
#elif KIND == 3
  float result = INITIAL != 0 ? start : -TV_INF;
#elif KIND == 4
  float result = INITIAL != 0 ? start : TV_INF;
#else
  float result = INITIAL != 0 ? start : 0.0;
#endif
  for (uint k = first; k < last; ++k) {
    const float v = x_load((o * count + k) * inner + i);
#if KIND == 2
    result *= v;
#elif KIND == 3
    result = tv_max(result, v);
#elif KIND == 4
    result = tv_min(result, v);
#else
    result += v;
#endif
  }
#if KIND == 1
  const uint size = last > first ? last - first : 0u;
  if (size > 0u) result = tv_div(result, float(size));
  else if (INITIAL == 0) result = TV_NAN;
#endif
  y_store(id, result);
}
