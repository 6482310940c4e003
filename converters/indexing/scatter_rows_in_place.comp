// scatter_rows.comp on y itself, which holds x: the values of the entries that name a row are added
// to it in ascending order (ADD), or the last of them takes its place. The first entry of a row
// does the work of all. A key of `rows` is no row.
//
// `row_OFFSETS` gives for a row its offset in y, `rest_OFFSETS` for an element of the rest its
// offset in y (place_offset) and in the values (rest_offset), `value_OFFSETS` the offset that an
// entry makes there. One element of an entry an invocation.

uint entry_offset(uint i) {
  value_OFFSETS(i)
  return v_offset;
}

uint row_place(uint row) {
  row_OFFSETS(row)
  return row_offset;
}

void main() {
  const uint id = tv_group() * LOCAL_X + gl_LocalInvocationID.x;
  if (id >= elements) return;
  const uint entry = id / rests;
  if (first_load(entry) == 0 || uint(key_load(entry)) >= rows) return;
  rest_OFFSETS(id - entry * rests)
  const uint at = row_place(uint(key_load(entry))) + place_offset;
#if ADD
  y_T result = y_raw(at);
#else
  y_T result = y_T(0);
#endif
  for (uint i = entry; i < entries;) {
    const y_T v = y_T(v_raw(rest_offset + entry_offset(i)));
#if ADD
    result += v;
#else
    result = v;
#endif
    const uint after = uint(next_load(i));
    i = after > i ? after : entries;  // ends on any numbers: a pipeline's first run is on zeros
  }
  y_raw_store(at, result);
}
