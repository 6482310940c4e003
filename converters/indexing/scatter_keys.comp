// key[i]: which row of the result the i-th entry of the broadcast index tensors names, counted over
// the indexed dimensions (scatter_row.glsl). `entry_OFFSETS` gives the entry's offset in each index
// tensor. An entry that names no row, and one equal to `dropped` (embedding's padding_idx), gets
// `rows`, which is none. One entry an invocation.

#include "scatter_row.glsl"

Row row_of(uint entry) {
  entry_OFFSETS(entry)
  Row row = Row(0u, true);
  INDEX_PICKS(row)
  return row;
}

void main() {
  const uint id = tv_group() * LOCAL_X + gl_LocalInvocationID.x;
  if (id >= entries) return;
  const Row row = row_of(id);
  key_store(id, int(row.inside && int(row.number) != dropped ? row.number : rows));
}
