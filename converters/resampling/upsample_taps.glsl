// Where output o of one resized dimension looks, and with what weights, in torch's arithmetic.
//
// Defines: MODE, ALIGN (corners), COPIES (whether an output of as many elements has each element
// itself, whatever scale was given: scales whose sizes are rounded down to the same ones).
// Anti-aliased modes widen their filter by the scale: see upsample_dim.comp.

#define NEAREST 0
#define EXACT 1
#define LINEAR 2
#define CUBIC 3

#if MODE == LINEAR
#define TAPS 2
#elif MODE == CUBIC
#define TAPS 4
#else
#define TAPS 1
#endif

struct Taps {
  uint at[TAPS];
  float weight[TAPS];
};

#define ITSELF (-1.0)  // in place of source steps an output

// No branches: what follows from uniform numbers alone stays uniform on CPU drivers (simd.glsl).

/// Source steps an output: what the caller gave, 0 for nothing, else the ratio of the sizes.
float step_of(uint from, uint to, float given) {
#if ALIGN
  float pace = mix(0.0, tv_div(float(from) - 1.0, float(to) - 1.0), to > 1u);
#else
  float pace = mix(tv_div(float(from), float(to)), given, given > 0.0);
#endif
#if COPIES
#if MODE == NEAREST
  pace = mix(pace, 0.5, to == 2u * from);
#endif
  pace = mix(pace, ITSELF, from == to);
#endif
  return pace;
}

float source_of(uint o, float pace) {
#if ALIGN
  return pace * float(o);
#elif MODE == NEAREST
  return float(o) * pace;
#elif MODE == EXACT
  return (float(o) + 0.5) * pace;
#elif MODE == LINEAR
  return max(pace * (float(o) + 0.5) - 0.5, 0.0);
#else
  return pace * (float(o) + 0.5) - 0.5;
#endif
}

Taps taps_of(uint o, uint size, float pace) {
  const float from = source_of(o, pace), base = floor(from);
  Taps t;
#if MODE == NEAREST || MODE == EXACT
  t.at[0] = min(uint(base), size - 1u);
  t.weight[0] = 1.0;
#elif MODE == LINEAR
  t.at[0] = min(uint(base), size - 1u);
  t.at[1] = min(t.at[0] + 1u, size - 1u);
  t.weight[1] = clamp(from - float(t.at[0]), 0.0, 1.0);
  t.weight[0] = 1.0 - t.weight[1];
#else
  [[unroll]] for (uint k = 0u; k < TAPS; ++k) {
    t.at[k] = uint(clamp(int(base) + int(k) - 1, 0, int(size) - 1));
  }
  // The convolution kernel of Keys (1981) with a = -0.75.
  const float a = -0.75, f = clamp(from - base, 0.0, 1.0), g = 1.0 - f;
  const float f1 = f + 1.0, g1 = g + 1.0;
  t.weight[0] = ((a * f1 - 5.0 * a) * f1 + 8.0 * a) * f1 - 4.0 * a;
  t.weight[1] = ((a + 2.0) * f - (a + 3.0)) * f * f + 1.0;
  t.weight[2] = ((a + 2.0) * g - (a + 3.0)) * g * g + 1.0;
  t.weight[3] = ((a * g1 - 5.0 * a) * g1 + 8.0 * a) * g1 - 4.0 * a;
#endif
#if COPIES
  [[unroll]] for (uint k = 0u; k < TAPS; ++k) {
    t.at[k] = mix(t.at[k], o, pace == ITSELF);
    t.weight[k] = mix(t.weight[k], k == 0u ? 1.0 : 0.0, pace == ITSELF);
  }
#endif
  return t;
}
