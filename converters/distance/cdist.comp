// y[b, i, j] = (sum over k of |x1[b, i, k] - x2[b, j, k]|^p)^(1/p): _cdist_forward; with ROWS the
// pairs i < j of one list of rows, in order: _pdist_forward.
//
// ORDER: 0 (how many differ), 1, 2, 3 (the largest: p infinite), 4 (any p). One distance an
// invocation.

void main() {
  const uint id = tv_group() * LOCAL_X + gl_LocalInvocationID.x;
  if (id >= elements) return;
#if ROWS
  // Pair number id of the upper triangle: the first row by the root of a quadratic, then corrected.
  const float n = float(rows1) - 0.5;
  uint i = uint(max(n - sqrt(max(n * n - 2.0 * float(id) - 1.0, 0.0)), 0.0));
  i = min(i, rows1 - 2u);
  if (i > 0u && i * (2u * rows1 - i - 1u) / 2u > id) --i;
  if ((i + 1u) * (2u * rows1 - i - 2u) / 2u <= id) ++i;
  const uint j = id - i * (2u * rows1 - i - 1u) / 2u + i + 1u;
  const uint a = i * columns, b = j * columns;
#else
  const uint j = id % rows2, line = id / rows2;
  const uint a = line * columns, b = ((line / rows1) * rows2 + j) * columns;
#endif
  float sum = 0.0;
  for (uint k = 0u; k < columns; ++k) {
#if ROWS
    const float d = abs(x1_load(a + k) - x1_load(b + k));
#else
    const float d = abs(x1_load(a + k) - x2_load(b + k));
#endif
#if ORDER == 0
    sum += tv_isnan(d) ? d : d != 0.0 ? 1.0 : 0.0;
#elif ORDER == 1
    sum += d;
#elif ORDER == 2
    sum += d * d;
#elif ORDER == 3
    // torch's pdist hands a nan on, its cdist passes over it.
#if ROWS
    sum = tv_max(sum, d);
#else
    sum = d > sum ? d : sum;
#endif
#else
    sum += tv_pow(d, order);
#endif
  }
#if ORDER == 2
  sum = tv_sqrt(sum);
#elif ORDER == 4
  sum = tv_pow(sum, 1.0 / order);
#endif
  y_store(id, sum);
}
