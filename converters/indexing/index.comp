// y = x[i0, :, i1, …]: advanced indexing with several index tensors that broadcast together.
//
// `all_OFFSETS` gives, for an element of y, the offset in x that the sliced coordinates make and
// the offset in each index tensor. INDEX_PICKS: the sum of pick(…), an index tensor's share, of all
// of them. PLACE: the index as a place in the dimension. One element an invocation.

/// The offset in x of place v along a dimension; negative values count from the end.
uint pick(int64_t v, uint size, uint stride) {
  const int64_t front = v < int64_t(0) ? v + int64_t(size) : v;
  return PLACE(front, size) * stride;
}

uint source_of(uint id) {
  all_OFFSETS(id)
  return x_offset + INDEX_PICKS;
}

void main() {
  const uint id = tv_group() * LOCAL_X + gl_LocalInvocationID.x;
  if (id < elements) y_store(id, y_T(x_raw(source_of(id))));
}
