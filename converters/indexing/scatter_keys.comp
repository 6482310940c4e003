// key[i]: which row of the result the i-th entry of the broadcast index tensors names, counted over
// the indexed dimensions. Negative values count from the end. PLACE: the index as a place in its
// dimension. An entry equal to `dropped` (embedding's padding_idx) gets `rows`, which is no row.
// One entry an invocation.

#define PICK(raw, at, size)                                                      \
  {                                                                              \
    const int64_t v_ = int64_t(raw(at));                                         \
    const int64_t front_ = v_ < int64_t(0) ? v_ + int64_t(size) : v_;            \
    row = row * size + PLACE(front_, size);                                      \
  }

void main() {
  const uint id = tv_group() * LOCAL_X + gl_LocalInvocationID.x;
  if (id >= entries) return;
  entry_OFFSETS(id)
  uint row = 0u;
  INDEX_PICKS
  key_store(id, int(int(row) == dropped ? rows : row));
}
