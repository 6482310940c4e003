// y = x, with the values of the entries that name a row added to it in ascending order (ADD), or
// with the last of them in its place. BASE: whether there is an x; else y begins as 0.
//
// The entries of row r are at[start[r]] … at[start[r + 1] - 1]. `y_OFFSETS` and `value_OFFSETS` as
// in scatter_rows.comp. One element an invocation.

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
  const uint end = min(uint(start_load(row_offset + 1u)), entries);
#if ADD
  const uint begin = uint(start_load(row_offset));
#else
  const uint begin = max(uint(start_load(row_offset)) + 1u, end) - 1u;
#endif
  for (uint p = begin; p < end; ++p) {
    const y_T v = y_T(v_raw(rest_offset + entry_offset(min(uint(at_raw(p)), entries - 1u))));
#if ADD
    result += v;
#else
    result = v;
#endif
  }
  y_store(id, result);
}
