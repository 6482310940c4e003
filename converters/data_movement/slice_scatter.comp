// y = x, but src where the coordinate along one dimension is from, from + step, … (count of them).
//
// x, y: outer × size × inner; src: outer × count × inner. One element an invocation.

void main() {
  const uint id = tv_group() * LOCAL_X + gl_LocalInvocationID.x;
  if (id >= elements) return;
  const uint row = id / inner;
  const uint o = row / size;
  const uint c = row - o * size;
  const uint k = id - row * inner;
  const uint past = c - from;
  if (c >= from && past % by == 0u && past / by < count) {
    y_store(id, y_T(src_load((o * count + past / by) * inner + k)));
  } else {
    y_store(id, y_T(x_load(id)));
  }
}
