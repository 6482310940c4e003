// y = the bytes of x as elements of another type. x, y: any shape, of as many bytes, in row-major
// order. UNIT: a type that both consist of, X_UNITS of it an element of x and Y_UNITS one of y.
// One unit an invocation.

void main() {
  const uint id = tv_group() * LOCAL_X + gl_LocalInvocationID.x;
  if (id >= units) return;
  const uint x_at = id / X_UNITS, y_at = id / Y_UNITS;
  UNIT(y_ptr).v[y_index(y_at) * Y_UNITS + (id - y_at * Y_UNITS)] =
      UNIT(x_ptr).v[x_index(x_at) * X_UNITS + (id - x_at * X_UNITS)];
}
