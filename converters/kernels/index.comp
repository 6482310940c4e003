// y = x[i0, :, i1, …]: advanced indexing with several index tensors that broadcast together.
//
// `all_WALK` gives, for an element of y, the offset in x that the sliced coordinates make and the
// offset in each index tensor. PICK adds an index's share: negative values count from the end, and
// a value outside of the dimension is taken for the nearest inside, so that no address lies outside
// of x. INDEX_PICKS: one PICK per index tensor. One element an invocation.

#define PICK(raw, at, size, stride)                                              \
  {                                                                              \
    const int64_t v_ = int64_t(raw(at));                                         \
    const int64_t size_ = int64_t(size);                                         \
    const int64_t front_ = v_ < int64_t(0) ? v_ + size_ : v_;                    \
    x_offset += uint(clamp(front_, int64_t(0), size_ - int64_t(1))) * (stride);  \
  }

void main() {
  const uint id = tv_group() * LOCAL_X + gl_LocalInvocationID.x;
  if (id >= elements) return;
  all_WALK(id)
  INDEX_PICKS
  y_store(id, y_T(x_raw(x_offset)));
}
