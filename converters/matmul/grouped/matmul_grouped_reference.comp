// y[s][n] = sum over k of a[s][k] * b[e][n][k], or b[e][k][n] where BY_COLUMNS, e the first group
// with ends[e] > s; 0 where there is none. a: rows × k_count, ends: groups. Blocks of 32 keep the
// rounding error small. Grid: one invocation for each output.

void main() {
  const uint id = tv_group() * LOCAL_X + gl_LocalInvocationID.x;
  if (id >= rows * n_count) return;
  const uint s = id / n_count, n = id - s * n_count;
  uint e = 0u;
  while (e < groups && ends_raw(e) <= ends_T(s)) e++;
  if (e == groups) {
    y_store(id, y_T(0));
    return;
  }
#if BY_COLUMNS
  uint at = e * k_count * n_count + n;
  const uint step = n_count;
#else
  uint at = (e * n_count + n) * k_count;
  const uint step = 1u;
#endif
  float sum = 0.0;
  for (uint k = 0u; k < k_count;) {
    const uint stop = min(k_count, k + 32u);
    float block = 0.0;
    for (; k < stop; k++) {
      block = fma(float(a_raw(s * k_count + k)), float(b_raw(at)), block);
      at += step;
    }
    sum += block;
  }
  y_store(id, y_T(sum));
}
