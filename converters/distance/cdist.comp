// y[b, i, j] = (sum over k of |x1[b, i, k] - x2[b, j, k]|^p)^(1/p): _cdist_forward; with ROWS the
// pairs i < j of one list of rows, in order: _pdist_forward.
//
// ORDER: 0 (how many differ), 1, 2, 3 (the largest: p infinite), 4 (any p). One distance an
// invocation.

/// Offsets of the two rows whose distance is number id.
uvec2 rows_of(uint id) {
#if ROWS
  // Pair number id of the upper triangle: the first row by the root of a quadratic, then corrected.
  const float n = float(rows1) - 0.5;
  uint i = uint(max(n - sqrt(max(n * n - 2.0 * float(id) - 1.0, 0.0)), 0.0));
  i = min(i, rows1 - 2u);
  if (i > 0u && i * (2u * rows1 - i - 1u) / 2u > id) --i;
  if ((i + 1u) * (2u * rows1 - i - 2u) / 2u <= id) ++i;
  const uint j = id - i * (2u * rows1 - i - 1u) / 2u + i + 1u;
  return uvec2(i, j) * columns;
#else
  const uint j = id % rows2, line = id / rows2;
  return uvec2(line, (line / rows1) * rows2 + j) * columns;
#endif
}

/// `sum` with the distance d of two elements.
float joined(float sum, float d) {
#if ORDER == 0
  return sum + (tv_isnan(d) ? d : d != 0.0 ? 1.0 : 0.0);
#elif ORDER == 1
  return sum + d;
#elif ORDER == 2
  return sum + d * d;
#elif ORDER == 3
  // torch's pdist hands a nan on, its cdist passes over it.
#if ROWS
  return tv_max(sum, d);
#else
  return d > sum ? d : sum;
#endif
#else
  return sum + tv_pow(d, order);
#endif
}

void main() {
  const uint id = tv_group() * LOCAL_X + gl_LocalInvocationID.x;
  if (id >= elements) return;
  const uvec2 at = rows_of(id);
  float sum = 0.0;
  for (uint k = 0u; k < columns; ++k) {
#if ROWS
    sum = joined(sum, abs(x1_load(at.x + k) - x1_load(at.y + k)));
#else
    sum = joined(sum, abs(x1_load(at.x + k) - x2_load(at.y + k)));
#endif
  }
#if ORDER == 2
  sum = tv_sqrt(sum);
#elif ORDER == 4
  sum = tv_pow(sum, 1.0 / order);
#endif
  y_store(id, sum);
}
