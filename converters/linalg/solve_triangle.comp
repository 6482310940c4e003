// y[z] of t[z] y[z] = b[z], or t[z]ᵀ y[z] = b[z] where TRANSPOSED, t: N x N, of which one triangle
// is read; b, y: N x columns. FORWARD: from the first row on. UNIT: the diagonal is 1. An
// invocation computes one of `total` columns, kept in shared memory, which nobody else reads.

shared float known[N * LOCAL_X];

void main() {
  const uint me = gl_LocalInvocationID.x, id = tv_group() * LOCAL_X + me;
  if (id >= total) return;
  const uint z = id / columns, to = z * (N * columns) + (id - z * columns), from = z * (N * N);
  for (uint s = 0u; s < N; ++s) {
    const uint i = FORWARD != 0 ? s : N - 1u - s;
    float sum = b_load(to + i * columns);
    for (uint r = 0u; r < s; ++r) {
      const uint k = FORWARD != 0 ? r : N - 1u - r;
      const float w = t_load(from + (TRANSPOSED != 0 ? k * N + i : i * N + k));
      sum = fma(-w, known[k * LOCAL_X + me], sum);
    }
    if (UNIT == 0) sum = tv_div(sum, t_load(from + i * N + i));
    known[i * LOCAL_X + me] = sum;
    y_store(to + i * columns, sum);
  }
}
