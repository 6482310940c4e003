// Resizing of one to three dimensions: nearest (source floor(o · scale)), exact nearest
// (floor((o + 0.5) scale)), linear or cubic (half-pixel centres, or ALIGN corners).
//
// x: planes × in_0 … in_{DIMS - 1}, y: planes × out_0 …; scale_k: source steps per output step, 0:
// the ratio of the sizes. One output an invocation. Defines: those of upsample_taps.glsl, DIMS,
// COPY (values are passed on as they are).

#include "upsample_taps.glsl"

#if COPY
#define VALUE y_T
#define ADD(sum, w, v) sum = (v)
#else
#define VALUE float
#define ADD(sum, w, v) sum += (w) * (v)
#endif

/// An output's value from the lines, areas or volumes of x that its taps name.
VALUE of_line(uint line, Taps t0) {
  VALUE sum = VALUE(0);
  [[unroll]] for (int a = 0; a < TAPS; ++a) {
    ADD(sum, t0.weight[a], VALUE(x_load(line + t0.at[a])));
  }
  return sum;
}

#if DIMS > 1
VALUE of_area(uint area, Taps t0, Taps t1) {
  VALUE sum = VALUE(0);
  [[unroll]] for (int b = 0; b < TAPS; ++b) {
    ADD(sum, t1.weight[b], of_line((area + t1.at[b]) * in_0, t0));
  }
  return sum;
}
#endif

#if DIMS > 2
VALUE of_volume(uint volume, Taps t0, Taps t1, Taps t2) {
  VALUE sum = VALUE(0);
  [[unroll]] for (int c = 0; c < TAPS; ++c) {
    ADD(sum, t2.weight[c], of_area((volume + t2.at[c]) * in_1, t0, t1));
  }
  return sum;
}
#endif

void main() {
  const uint id = tv_group() * LOCAL_X + gl_LocalInvocationID.x;
  if (id >= outputs) return;
  const uint line = id / out_0;
  const Taps t0 = taps_of(id - line * out_0, in_0, step_of(in_0, out_0, scale_0));
#if DIMS == 1
  y_store(id, y_T(of_line(line * in_0, t0)));
#else
  const uint area = line / out_1;
  const Taps t1 = taps_of(line - area * out_1, in_1, step_of(in_1, out_1, scale_1));
#if DIMS == 2
  y_store(id, y_T(of_area(area * in_1, t0, t1)));
#else
  const uint volume = area / out_2;
  const Taps t2 = taps_of(area - volume * out_2, in_2, step_of(in_2, out_2, scale_2));
  y_store(id, y_T(of_volume(volume * in_2, t0, t1, t2)));
#endif
#endif
}
