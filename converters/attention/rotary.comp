// Rotary position embeddings (rotary.glsl) of x; with PAIR of x2 by the same cos and sin, too; with
// WRITE its result, the keys, and the values v go to position `at` of caches of SIZE positions.
//
// row_OFFSETS and row2_OFFSETS give the offsets of a row of x and x2, and of cos and sin there, and
// with WRITE of the keys' cache; row3_OFFSETS those of v and of the values' cache, whose rows have
// V_COLS elements. A position outside of the caches is stored nowhere; with WRAPS negative ones
// count from the end.
// Grid: flat, one element an invocation: those of x, then of x2, then of v.

#include "rotary.glsl"

#if WRITE
bool position(out uint place) {
  int64_t at_ = int64_t(at_raw(0u));
  if (bool(WRAPS) && at_ < int64_t(0)) at_ += int64_t(positions);
  place = PLACE(at_, positions);
  return int64_t(place) == at_;
}
#endif

void main() {
  uint i = tv_group() * LOCAL_X + gl_LocalInvocationID.x;
  if (i < elements) {
    const uint row = i / COLS, d = i - row * COLS;
    row_OFFSETS(row)
    y_store(i, y_T(ROTARY(x, x_offset, cos_offset, sin_offset, d)));
  }
#if PAIR
  if (i < elements) return;
  i -= elements;
  if (i < elements2) {
    const uint row = i / COLS, d = i - row * COLS;
    row2_OFFSETS(row)
#if WRITE
    uint at;
    if (position(at)) {
      y2_raw_store(y2_offset + at * y2_step + d * y2_d,
                   y2_T(ROTARY(x2, x2_offset, cos_offset, sin_offset, d)));
    }
#else
    y2_store(i, y2_T(ROTARY(x2, x2_offset, cos_offset, sin_offset, d)));
#endif
  }
#endif
#if WRITE
  if (i < elements2) return;
  i -= elements2;
  if (i < elements3) {
    const uint row = i / V_COLS, d = i - row * V_COLS;
    row3_OFFSETS(row)
    uint at;
    if (!position(at)) return;
    y3_raw_store(y3_offset + at * y3_step + d * y3_d, y3_T(v_raw(v_offset + d * v_d)));
  }
#endif
}
