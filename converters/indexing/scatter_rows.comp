// y = x, with the values of the entries that name a row added to it in ascending order (ADD), or
// with the last of them in its place. BASE: whether there is an x; else y begins as 0.
//
// `y_OFFSETS` gives for an element of y its row (row_offset) and its offset in the values without
// the entry (rest_offset); `value_OFFSETS` the offset that an entry makes. One element an
// invocation.

uint entry_offset(uint i) {
  value_OFFSETS(i)
  return v_offset;
}

void main() {
  const uint id = tv_group() * LOCAL_X + gl_LocalInvocationID.x;
  if (id >= elements) return;
  y_OFFSETS(id)
#if BASE
  y_T result = y_T(x_load(id));
#else
  y_T result = y_T(0);
#endif
  for (uint i = uint(head_load(row_offset)); i < entries;) {
    const y_T v = y_T(v_raw(rest_offset + entry_offset(i)));
#if ADD
    result += v;
#else
    result = v;
#endif
    const uint after = uint(next_load(i));
    i = after > i ? after : entries;  // ends on any numbers: a pipeline's first run is on zeros
  }
  y_store(id, result);
}
