// y[o, j, k] = x[o, index[j], k], an index outside of 0 … size - 1 taken for the nearest inside, so
// that no address lies outside of x (torch raises an error; a kernel cannot).
//
// index: int32 or int64, `count` of them; embedding is the case o = 1. One element an invocation.

void main() {
  const uint id = tv_group() * LOCAL_X + gl_LocalInvocationID.x;
  if (id >= elements) return;
  const uint row = id / inner;
  const uint o = row / count;
  const index_T wanted = index_load(row - o * count);
  const uint from = uint(clamp(wanted, index_T(0), index_T(size - 1u)));
  y_store(id, y_T(x_load((o * size + from) * inner + (id - row * inner))));
}
