// scatter_reduce along one dimension, seen from the result: the sources whose index names the
// element are joined in ascending order, together with x unless SELF is 0; an element that no index
// names is x's. An index outside of y matches no element; BAD_INDEX says that there is one, unless
// it may be.
//
// JOIN(a, b), START (what nothing joins to), MEAN (divide by how many were joined; integers round
// down). SCATTER_AXES as in scatter_axes.glsl. One element an invocation.

#include "scatter_axes.glsl"

y_T largest(y_T a, y_T b) {
#if FLOATS
  return tv_max(a, b);
#else
  return max(a, b);
#endif
}
y_T smallest(y_T a, y_T b) {
#if FLOATS
  return tv_min(a, b);
#else
  return min(a, b);
#endif
}

void main() {
  const uint id = tv_group() * LOCAL_X + gl_LocalInvocationID.x;
  if (id >= elements) return;
  const Element e = element_of(id);
  const y_T before = y_T(x_load(id));
  y_T result = before;
  uint joined = SELF;
  const uint reach = e.inside ? depth : 0u;
  for (uint k = 0u; k < reach; ++k) {
    const int64_t named = int64_t(index_raw(e.index_from + k * index_step));
    BAD_INDEX(named < int64_t(0) || named >= int64_t(e.size));
    if (named != int64_t(e.own)) continue;
#if VALUE
    const y_T v = y_T(fill);
#else
    const y_T v = y_T(src_raw(e.source_from + k * source_step));
#endif
    result = joined == 0u ? v : y_T(JOIN(result, v));
    ++joined;
  }
#if MEAN
#if FLOATS
  if (joined > 1u) result = tv_div(result, float(joined));
#else
  if (joined > 1u) result = y_T(tv_div_floor(result, y_T(joined)));
#endif
#endif
  y_store(id, result);
}
