// scatter_reduce along one dimension, seen from the result: the sources whose index names the
// element are joined in ascending order, together with x unless SELF is 0; an element that no index
// names is x's. An index outside of y matches no element; BAD_INDEX says that there is one, unless
// it may be.
//
// JOIN(a, b), START (what nothing joins to), MEAN (divide by how many were joined; integers round
// down). SCATTER_AXES as in scatter_dim.comp. One element an invocation.

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
  uint rest = id, own = 0u, along = 1u, index_at = 0u, source_at = 0u;
  bool inside = true;
  SCATTER_AXES
  const y_T before = y_T(x_load(id));
  y_T result = before;
  uint joined = SELF;
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
