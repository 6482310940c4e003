// The gradient of cdist.comp by the rows of x1: y[b, i, k] = the sum over j of g[b, i, j] times the
// derivative of the distance d[b, i, j] by x1[b, i, k]. With ROWS the pairs are those of one list,
// each row as the first and as the second of its pairs. Where the distance is 0 so is the
// derivative.
//
// ORDER as there, and 5 for any p below 2. One element an invocation.

float slope(float difference, float d) {
  const float size = abs(difference), sign_ = tv_sign(difference);
#if ORDER == 0
  return 0.0;
#elif ORDER == 1
  return sign_;
#elif ORDER == 2
  return d == 0.0 ? 0.0 : tv_div(difference, d);
#elif ORDER == 3
  return size == d ? sign_ : 0.0;
#elif ORDER == 5
  const bool flat_ = d == 0.0 || (difference == 0.0 && order < 1.0);
  return flat_ ? 0.0 : sign_ * tv_div(tv_pow(size, order - 1.0), tv_pow(d, order - 1.0));
#else
  return d == 0.0 ? 0.0
                  : tv_div(difference * tv_pow(size, order - 2.0), tv_pow(d, order - 1.0));
#endif
}

void main() {
  const uint id = tv_group() * LOCAL_X + gl_LocalInvocationID.x;
  if (id >= elements) return;
  const uint line = id / columns, k = id - line * columns;
  const float x = x1_load(id);
  float sum = 0.0;
#if ROWS
  for (uint j = 0u; j < rows1; ++j) {
    if (j == line) continue;
    const uint a = min(line, j), b = max(line, j);
    const uint pair = a * (2u * rows1 - a - 1u) / 2u + b - a - 1u;
    sum += g_load(pair) * slope(x - x1_load(j * columns + k), d_load(pair));
  }
#else
  const uint first = (line / rows1) * rows2 * columns + k;
  for (uint j = 0u; j < rows2; ++j) {
    const uint pair = line * rows2 + j;
    sum += g_load(pair) * slope(x - x2_load(first + j * columns), d_load(pair));
  }
#endif
  y_store(id, sum);
}
