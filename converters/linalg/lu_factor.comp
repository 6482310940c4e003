// LAPACK's getrf: x[z] = P L U by rows exchanged for the largest pivot of a column, the first of
// equal ones. y: L below the diagonal, of ones, and U; pivots: the row that row k was exchanged
// with, from 1 on; info: the first zero on the diagonal, from 1 on, or 0. A workgroup has a matrix
// of M x N.

shared float a[M * N == 0u ? 1u : M * N];
shared uint chosen;

void main() {
  const uint me = gl_LocalInvocationID.x, z = tv_group(), least = min(M, N);
  if (z >= matrices) return;
  for (uint e = me; e < M * N; e += LOCAL_X) a[e] = x_load(z * (M * N) + e);
  int first_zero = 0;
  barrier();
  for (uint k = 0u; k < least; ++k) {
    if (me == 0u) {
      uint best = k;
      for (uint i = k + 1u; i < M; ++i) {
        if (abs(a[i * N + k]) > abs(a[best * N + k])) best = i;
      }
      if (a[best * N + k] == 0.0 && first_zero == 0) first_zero = int(k) + 1;
      chosen = best;
      pivots_store(z * least + k, int(best) + 1);
    }
    barrier();
    const uint row = chosen;
    if (row != k) {
      for (uint j = me; j < N; j += LOCAL_X) {
        const float held = a[k * N + j];
        a[k * N + j] = a[row * N + j];
        a[row * N + j] = held;
      }
    }
    barrier();
    const float pivot = a[k * N + k];
    if (pivot != 0.0) {
      for (uint i = k + 1u + me; i < M; i += LOCAL_X) a[i * N + k] = tv_div(a[i * N + k], pivot);
    }
    barrier();
    const uint rest = N - k - 1u;
    for (uint e = me; e < (M - k - 1u) * rest; e += LOCAL_X) {
      const uint down = e / rest, i = k + 1u + down, j = k + 1u + (e - down * rest);
      a[i * N + j] = fma(-a[i * N + k], a[k * N + j], a[i * N + j]);
    }
    barrier();
  }
  for (uint e = me; e < M * N; e += LOCAL_X) y_store(z * (M * N) + e, a[e]);
  if (me == 0u) info_store(z, first_zero);
}
