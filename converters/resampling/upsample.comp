// Resizing of one to three dimensions: nearest (source floor(o · scale)), exact nearest
// (floor((o + 0.5) scale)), linear or cubic (half-pixel centres, or ALIGN corners).
//
// x: planes × in_0 … in_{DIMS - 1}, y: planes × out_0 …; scale_k: source steps per output step, 0: the
// ratio of the sizes. One output an invocation. Defines: those of upsample_taps.glsl, DIMS, COPY
// (values are passed on as they are).

#include "upsample_taps.glsl"

#if COPY
#define VALUE y_T
#define ADD(sum, w, v) sum = (v)
#else
#define VALUE float
#define ADD(sum, w, v) sum += (w) * (v)
#endif

void main() {
  const uint id = tv_group() * LOCAL_X + gl_LocalInvocationID.x;
  if (id >= outputs) return;
  uint rest = id / out_0;
  const Taps t0 = taps_of(id - rest * out_0, in_0, step_of(in_0, out_0, scale_0));
#if DIMS > 1
  const uint row = rest / out_1;
  const Taps t1 = taps_of(rest - row * out_1, in_1, step_of(in_1, out_1, scale_1));
  rest = row;
#endif
#if DIMS > 2
  const uint slice = rest / out_2;
  const Taps t2 = taps_of(rest - slice * out_2, in_2, step_of(in_2, out_2, scale_2));
  rest = slice;
  const uint plane = rest * in_2;
  VALUE whole = VALUE(0);
  [[unroll]] for (int c = 0; c < TAPS; ++c) {
    const uint slab = (plane + t2.at[c]) * in_1;
#elif DIMS > 1
  const uint slab = rest * in_1;
#endif
#if DIMS > 1
  VALUE area = VALUE(0);
  [[unroll]] for (int b = 0; b < TAPS; ++b) {
    const uint line = (slab + t1.at[b]) * in_0;
#else
    const uint line = rest * in_0;
#endif
    VALUE sum = VALUE(0);
    [[unroll]] for (int a = 0; a < TAPS; ++a) {
      ADD(sum, t0.weight[a], VALUE(x_load(line + t0.at[a])));
    }
#if DIMS > 1
    ADD(area, t1.weight[b], sum);
  }
#endif
#if DIMS > 2
    ADD(whole, t2.weight[c], area);
  }
  y_store(id, y_T(whole));
#elif DIMS > 1
  y_store(id, y_T(area));
#else
  y_store(id, y_T(sum));
#endif
}
