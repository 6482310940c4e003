// scatter_rows_in_place.comp where the indices name one place: nothing has to be ordered, and each
// invocation finds the place itself. `row_OFFSETS` and `rest_OFFSETS` as there, INDEX_PICKS as in
// scatter_keys.comp. With PAIR an element of a second tensor, at the same indices, behind those of the
// first. One element of the rest an invocation.

#define PICK(raw, at, size)                                                      \
  {                                                                              \
    const int64_t v_ = int64_t(raw(0u));                                         \
    const int64_t front_ = v_ < int64_t(0) ? v_ + int64_t(size) : v_;            \
    row = row * size + PLACE(front_, size);                                      \
  }

uint row_place() {
  uint row = 0u;
  INDEX_PICKS
  row_OFFSETS(row)
  return row_offset;
}
#if PAIR
uint row_place2() {
  uint row = 0u;
  INDEX_PICKS2
  row2_OFFSETS(row)
  return row_offset;
}
#endif

void main() {
  const uint id = tv_group() * LOCAL_X + gl_LocalInvocationID.x;
  if (id < elements) {
    rest_OFFSETS(id)
    const uint at = row_place() + place_offset;
    const y_T v = y_T(v_raw(rest_offset));
#if ADD
    y_raw_store(at, y_raw(at) + v);
#else
    y_raw_store(at, v);
#endif
  }
#if PAIR
  if (id < elements || id - elements >= elements2) return;
  rest2_OFFSETS(id - elements)
  y2_raw_store(row_place2() + place_offset, y2_T(v2_raw(rest_offset)));
#endif
}
