// scatter_rows_in_place.comp where the indices name one place: nothing has to be ordered, and each
// invocation finds the place itself. `row_OFFSETS` and `rest_OFFSETS` as there, INDEX_PICKS as in
// scatter_row.glsl; where they name none, nothing is stored. With PAIR an element of a second
// tensor, at the same indices, behind those of the first (INDEX_PICKS2). One element of the rest an
// invocation.

#include "scatter_row.glsl"

uint row_place(out bool inside) {
  Row row = Row(0u, true);
  INDEX_PICKS(row)
  inside = row.inside;
  row_OFFSETS(row.number)
  return row_offset;
}
#if PAIR
uint row_place2(out bool inside) {
  Row row = Row(0u, true);
  INDEX_PICKS2(row)
  inside = row.inside;
  row2_OFFSETS(row.number)
  return row_offset;
}
#endif

void main() {
  const uint id = tv_group() * LOCAL_X + gl_LocalInvocationID.x;
  bool inside;
  if (id < elements) {
    rest_OFFSETS(id)
    const uint at = row_place(inside) + place_offset;
    if (!inside) return;
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
  const uint at2 = row_place2(inside) + place_offset;
  if (inside) y2_raw_store(at2, y2_T(v2_raw(rest_offset)));
#endif
}
