// y[i] = x at i's coordinates, but index[i] along one dimension of x's `size` elements.
//
// `others_WALK` gives the offset in x that the other coordinates make, `index_WALK` the offset in
// index. An index outside of 0 … size - 1 is taken for the nearest inside, so that no address lies
// outside of x. One element an invocation.

void main() {
  const uint id = tv_group() * LOCAL_X + gl_LocalInvocationID.x;
  if (id >= elements) return;
  others_WALK(id)
  const index_T wanted = index_load(id);
  const uint at = uint(clamp(wanted, index_T(0), index_T(size - 1u)));
  y_store(id, y_T(x_raw(x_offset + at * size_stride)));
}
