// y: x, [steps][batch][COLUMNS] by strides, with the first `lengths` steps of each entry of the
// batch in reverse order, and the others where they are.

void main() {
  const uint id = tv_group() * LOCAL_X + gl_LocalInvocationID.x;
  if (id >= elements) return;
  const uint row = id / COLUMNS, column = id - row * COLUMNS, t = row / batch, b = row - t * batch;
  const uint length = uint(clamp(int(lengths_load(b)), 0, int(steps)));
  const uint place = t < length ? length - 1u - t : t;
  y_store(id, y_T(x_raw(place * x_t + b * x_b + column)));
}
