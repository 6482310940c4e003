// y[o, j, k] = x[o, index[j], k].
//
// index: int32 or int64, `count` of them; embedding is the case o = 1. One element an invocation.

void main() {
  const uint id = tv_group() * LOCAL_X + gl_LocalInvocationID.x;
  if (id >= elements) return;
  const uint row = id / inner;
  const uint o = row / count;
  const uint from = tv_place(index_load(row - o * count), size);
  y_store(id, y_T(x_load((o * size + from) * inner + (id - row * inner))));
}
