// y = x on one side of a diagonal and 0 on the other: triu keeps column - row >= diagonal, tril
// (LOWER) column - row <= diagonal. x, y: matrices × height × width. One element an invocation.

void main() {
  const uint id = tv_group() * LOCAL_X + gl_LocalInvocationID.x;
  if (id >= elements) return;
  const uint row = id / width;
  const int at = int(id - row * width) - int(row % height);
#if LOWER
  const bool keep = at <= diagonal;
#else
  const bool keep = at >= diagonal;
#endif
  y_store(id, keep ? y_T(x_load(id)) : y_T(0));
}
