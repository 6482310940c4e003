// y[i] = x at i's coordinates, but index[i] along one dimension of x's `size` elements.
//
// `others_OFFSETS` gives the offset in x that the other coordinates make, `index_OFFSETS` the
// offset in index. PLACE: the index as a place in 0 … size - 1. One element an invocation.

void main() {
  const uint id = tv_group() * LOCAL_X + gl_LocalInvocationID.x;
  if (id >= elements) return;
  others_OFFSETS(id)
  const uint at = PLACE(index_load(id), size);
  y_store(id, y_T(x_raw(x_offset + at * size_stride)));
}
