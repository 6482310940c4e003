// key[i]: which row of the result the i-th entry of the broadcast index tensors names, counted over
// the indexed dimensions. Negative values count from the end; a value outside of its dimension is
// taken for the nearest inside (torch raises an error; a kernel cannot). An entry equal to
// `dropped` (embedding's padding_idx) gets `rows`, which is no row. One entry an invocation.

#define PICK(raw, at, size)                                                      \
  {                                                                              \
    const int64_t v_ = int64_t(raw(at));                                         \
    const int64_t size_ = int64_t(size);                                         \
    const int64_t front_ = v_ < int64_t(0) ? v_ + size_ : v_;                    \
    row = row * size + uint(clamp(front_, int64_t(0), size_ - int64_t(1)));      \
  }

void main() {
  const uint id = tv_group() * LOCAL_X + gl_LocalInvocationID.x;
  if (id >= entries) return;
  entry_WALK(id)
  uint row = 0u;
  INDEX_PICKS
  key_store(id, int(int(row) == dropped ? rows : row));
}
