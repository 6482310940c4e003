// y = x · cos + r · sin, where r is -x[half:] before x[:half] along the last dimension of COLS
// elements: rotary position embeddings. Products are rounded before they are added, as in eager
// mode. With PAIR the same of x2, by the same cos and sin.
//
// row_OFFSETS and row2_OFFSETS give the offsets of a row of x and x2, and of cos and sin there.
// Grid: flat, one element an invocation, those of x2 behind those of x.

float rotated(float x, float other, float c, float s, bool first_half) {
  precise float a = x * c;
  precise float b = (first_half ? -other : other) * s;
  precise float sum = a + b;
  return sum;
}

void main() {
  const uint id = tv_group() * LOCAL_X + gl_LocalInvocationID.x;
  if (id < elements) {
    const uint row = id / COLS, d = id - row * COLS, other = d < COLS / 2u ? d + COLS / 2u : d - COLS / 2u;
    row_OFFSETS(row)
    y_store(id, y_T(rotated(float(x_raw(x_offset + d * x_d)), float(x_raw(x_offset + other * x_d)),
                            float(cos_raw(cos_offset + d * cos_d)),
                            float(sin_raw(sin_offset + d * sin_d)), d < COLS / 2u)));
  }
#if PAIR
  if (id < elements || id - elements >= elements2) return;
  const uint i = id - elements;
  const uint row = i / COLS, d = i - row * COLS, other = d < COLS / 2u ? d + COLS / 2u : d - COLS / 2u;
  row2_OFFSETS(row)
  y2_store(i, y2_T(rotated(float(x2_raw(x2_offset + d * x2_d)),
                           float(x2_raw(x2_offset + other * x2_d)),
                           float(cos_raw(cos_offset + d * cos_d)),
                           float(sin_raw(sin_offset + d * sin_d)), d < COLS / 2u)));
#endif
}
