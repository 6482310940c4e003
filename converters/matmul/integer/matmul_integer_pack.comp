// y[z][row][k] = x[z][row][k] for k < k_count, 0 up to `length`: rows whose words hold four
// elements.
// FLIPPED: x is uint8, and y is 128 less. IN_RUNS: of one matrix, runs of 16 elements, those of 16
// rows side by side, [rows / 16][length / 16][16]. x: any strides. One element an invocation.

void main() {
  const uint id = tv_group() * LOCAL_X + gl_LocalInvocationID.x;
  if (id >= elements) return;
  const uint line = id / length, k = id - line * length, z = line / rows, row = line - z * rows;
  int v = 0;
  if (k < k_count) {
    v = int(x_raw(z * x_z + row * x_row + k * x_k));
#if FLIPPED
    v -= 128;
#endif
  }
#if IN_RUNS
  y_raw_store(((row / 16u * (length / 16u) + k / 16u) * 16u + row % 16u) * 16u + k % 16u, v);
#else
  y_raw_store(id, v);
#endif
}
