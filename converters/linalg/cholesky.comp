// LAPACK's potrf: x[z] = L Lᵀ, of which x's lower triangle is read, or, UPPER, its upper one, and y
// is Lᵀ. The other triangle of y is 0. info: the first pivot that is not positive, from 1 on, or 0.
// A workgroup has a matrix of N x N.

shared float a[N == 0u ? 1u : N * N];

void main() {
  const uint me = gl_LocalInvocationID.x, z = tv_group(), from = z * (N * N);
  if (z >= matrices) return;
  for (uint e = me; e < N * N; e += LOCAL_X) {
    const uint i = e / N, j = e - i * N;
    a[e] = x_load(from + (UPPER != 0 ? j * N + i : e));
  }
  int failed = 0;
  barrier();
  for (uint k = 0u; k < N; ++k) {
    const float pivot = a[k * N + k];
    if (!(pivot > 0.0) && failed == 0) failed = int(k) + 1;
    const float root = tv_sqrt(pivot);
    barrier();
    for (uint i = k + me; i < N; i += LOCAL_X) {
      a[i * N + k] = i == k ? root : tv_div(a[i * N + k], root);
    }
    barrier();
    const uint rest = N - k - 1u;
    for (uint e = me; e < rest * rest; e += LOCAL_X) {
      const uint down = e / rest, i = k + 1u + down, j = k + 1u + (e - down * rest);
      if (j <= i) a[i * N + j] = fma(-a[i * N + k], a[j * N + k], a[i * N + j]);
    }
    barrier();
  }
  for (uint e = me; e < N * N; e += LOCAL_X) {
    const uint i = e / N, j = e - i * N;
    const uint row = UPPER != 0 ? j : i, column = UPPER != 0 ? i : j;
    y_store(from + e, column <= row ? a[row * N + column] : 0.0);
  }
  if (me == 0u) info_store(z, failed);
}
