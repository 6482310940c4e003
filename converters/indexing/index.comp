// y = x[i0, :, i1, …]: advanced indexing with several index tensors that broadcast together.
//
// `all_OFFSETS` gives, for an element of y, the offset in x that the sliced coordinates make and
// the offset in each index tensor. PICK adds an index's share: negative values count from the end.
// PLACE: the index as a place in the dimension. INDEX_PICKS: one PICK per index tensor. One element
// an invocation.

#define PICK(raw, at, size, stride)                                              \
  {                                                                              \
    const int64_t v_ = int64_t(raw(at));                                         \
    const int64_t front_ = v_ < int64_t(0) ? v_ + int64_t(size) : v_;            \
    x_offset += PLACE(front_, size) * (stride);                                  \
  }

void main() {
  const uint id = tv_group() * LOCAL_X + gl_LocalInvocationID.x;
  if (id >= elements) return;
  all_OFFSETS(id)
  INDEX_PICKS
  y_store(id, y_T(x_raw(x_offset)));
}
