// Rotary position embeddings (rotary.glsl) of x; with PAIR of x2 by the same cos and sin, too; with
// WRITE its result, the keys, and the values v go to position `at` of caches of SIZE positions.
//
// row_OFFSETS and row2_OFFSETS give the offsets of a row of x and x2, and of cos and sin there, and
// with WRITE of the keys' cache; row3_OFFSETS those of v and of the values' cache, whose rows have
// V_COLS elements. A position outside of the caches is stored nowhere; with WRAPS negative ones
// count from the end.
// Grid: flat, one element an invocation: those of x, then of x2, then of v; with NORM a workgroup
// for each row of these, which normalises those of x and x2 first (eps, NORM_FUNCTION).

#if NORM
#include "workgroup_reduction.glsl"
#endif
#include "rotary.glsl"

#if WRITE
bool position(out uint place) {
  int64_t at_ = int64_t(at_raw(0u));
  if (bool(WRAPS) && at_ < int64_t(0)) at_ += int64_t(positions);
  place = PLACE(at_, positions);
  return int64_t(place) == at_;
}
#endif

void rotate(uint row, uint d) {
  row_OFFSETS(row)
  y_store(row * COLS + d, y_T(ROTARY(x, x_offset, cos_offset, sin_offset, d)));
}

#if PAIR
void rotate2(uint row, uint d) {
  row2_OFFSETS(row)
#if WRITE
  uint at;
  if (position(at)) {
    y2_raw_store(y2_offset + at * y2_step + d * y2_d,
                 y2_T(ROTARY(x2, x2_offset, cos_offset, sin_offset, d)));
  }
#else
  y2_store(row * COLS + d, y2_T(ROTARY(x2, x2_offset, cos_offset, sin_offset, d)));
#endif
}
#endif

#if WRITE
void write(uint row, uint d) {
  row3_OFFSETS(row)
  uint at;
  if (!position(at)) return;
  y3_raw_store(y3_offset + at * y3_step + d * y3_d, y3_T(v_raw(v_offset + d * v_d)));
}
#endif

#if NORM
shared float squares_[LOCAL_X];
float add(float a, float b) { return a + b; }

// Sets inverse_ for the row of an operand that begins at `from`.
#define NORMALISE(operand, from)                                               \
  {                                                                            \
    float squares = 0.0;                                                       \
    for (uint d = gl_LocalInvocationID.x; d < COLS; d += LOCAL_X) {            \
      const float element = float(operand##_raw(from + d * operand##_d));      \
      squares = fma(element, element, squares);                                \
    }                                                                          \
    TV_WORKGROUP_REDUCE(squares_, squares, add)                                \
    inverse_ = tv_rsqrt(tv_div(squares, float(COLS)) + eps);                   \
  }

void main() {
  const uint first = gl_LocalInvocationID.x;
  uint row = tv_group();
  if (row < elements / COLS) {
    row_OFFSETS(row)
    NORMALISE(x, x_offset)
    for (uint d = first; d < COLS; d += LOCAL_X) rotate(row, d);
    return;
  }
#if PAIR
  row -= elements / COLS;
  if (row < elements2 / COLS) {
    row2_OFFSETS(row)
    NORMALISE(x2, x2_offset)
    for (uint d = first; d < COLS; d += LOCAL_X) rotate2(row, d);
    return;
  }
#endif
#if WRITE
  row -= elements2 / COLS;
  if (row >= elements3 / V_COLS) return;
  for (uint d = first; d < V_COLS; d += LOCAL_X) write(row, d);
#endif
}

#else
void main() {
  uint i = tv_group() * LOCAL_X + gl_LocalInvocationID.x;
  if (i < elements) rotate(i / COLS, i % COLS);
#if PAIR
  if (i < elements) return;
  i -= elements;
  if (i < elements2) rotate2(i / COLS, i % COLS);
#endif
#if WRITE
  if (i < elements2) return;
  i -= elements2;
  if (i < elements3) write(i / V_COLS, i % V_COLS);
#endif
}
#endif
