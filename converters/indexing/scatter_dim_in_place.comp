// scatter_dim.comp on y itself, which holds x: of the entries of a line that name one element the
// first adds the sources of all in ascending order (ADD), or stores the last one's. An index
// outside of y names no element; BAD_INDEX says that there is one, unless it may be.
//
// `entry_OFFSETS` gives the line's offsets in index, source and y, and the entry's number on it
// (k_offset). One entry an invocation.

void main() {
  const uint id = tv_group() * LOCAL_X + gl_LocalInvocationID.x;
  if (id >= elements) return;
  entry_OFFSETS(id)
  const uint own = k_offset;
  const int64_t wanted = int64_t(index_raw(index_offset + own * index_step));
  const bool outside = wanted < int64_t(0) || wanted >= int64_t(size);
  BAD_INDEX(outside);
  if (outside) return;
  for (uint k = 0u; k < own; ++k) {
    if (int64_t(index_raw(index_offset + k * index_step)) == wanted) return;
  }
  const uint at = y_offset + uint(wanted) * y_step;
#if ADD
  y_T result = y_raw(at);
#else
  y_T result = y_T(0);
#endif
  for (uint k = own; k < depth; ++k) {
    if (int64_t(index_raw(index_offset + k * index_step)) != wanted) continue;
#if VALUE
    const y_T v = y_T(fill);
#else
    const y_T v = y_T(src_raw(src_offset + k * src_step));
#endif
#if ADD
    result += v;
#else
    result = v;
#endif
  }
  y_raw_store(at, result);
}
