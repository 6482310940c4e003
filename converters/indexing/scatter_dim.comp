// scatter along one dimension, seen from the result: y = x, and for each k in ascending order with
// index[…, k, …] equal to the element's own coordinate the source there is added (ADD) or put in
// its place, so the last one wins. An index outside of y matches no element;
// BAD_INDEX says that there is one, unless it may be.
//
// SCATTER_AXES: for each dimension, innermost first, AXIS, or DIM for the one scattered along; they
// find the offsets in index and source and whether these reach so far. One element an invocation.

#define TAKE(out_size)                    \
  const uint q_ = rest / (out_size);      \
  const uint c_ = rest - q_ * (out_size); \
  rest = q_;
#define AXIS(out_size, index_size, index_stride, source_stride) \
  {                                                             \
    TAKE(out_size)                                              \
    inside = inside && c_ < (index_size);                       \
    index_at += c_ * (index_stride);                            \
    source_at += c_ * (source_stride);                          \
  }
#define DIM(out_size) \
  {                   \
    TAKE(out_size)    \
    own = c_;         \
    along = out_size; \
  }

void main() {
  const uint id = tv_group() * LOCAL_X + gl_LocalInvocationID.x;
  if (id >= elements) return;
  uint rest = id, own = 0u, along = 1u, index_at = 0u, source_at = 0u;
  bool inside = true;
  SCATTER_AXES
  y_T result = y_T(x_load(id));
  const uint reach = inside ? depth : 0u;
  for (uint k = 0u; k < reach; ++k) {
    const int64_t named = int64_t(index_raw(index_at + k * index_step));
    BAD_INDEX(named < int64_t(0) || named >= int64_t(along));
    if (named != int64_t(own)) continue;
#if VALUE
    const y_T v = y_T(fill);
#else
    const y_T v = y_T(src_raw(source_at + k * source_step));
#endif
#if ADD
    result += v;
#else
    result = v;
#endif
  }
  y_store(id, result);
}
