// y[row][k] = x[row][k] for k < k_count, 0 up to `length`: rows that int_mm_simt reads four elements
// at once. x: any strides. One element an invocation.

void main() {
  const uint id = tv_group() * LOCAL_X + gl_LocalInvocationID.x;
  if (id >= elements) return;
  const uint row = id / length, k = id - row * length;
  y_store(id, k < k_count ? x_raw(row * row_stride + k * k_stride) : x_T(0));
}
