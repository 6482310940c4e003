// scatter along one dimension, seen from the result: y = x, and for each k in ascending order with
// index[…, k, …] equal to the element's own coordinate the source there is added (ADD) or put in
// its place, so the last one wins. An index outside of y matches no element;
// BAD_INDEX says that there is one, unless it may be.
//
// SCATTER_AXES as in scatter_axes.glsl. One element an invocation.

#include "scatter_axes.glsl"

void main() {
  const uint id = tv_group() * LOCAL_X + gl_LocalInvocationID.x;
  if (id >= elements) return;
  const Element e = element_of(id);
  y_T result = y_T(x_load(id));
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
#if ADD
    result += v;
#else
    result = v;
#endif
  }
  y_store(id, result);
}
