// y = (x - mean) * rstd * weight + bias over rows of `count` neighbours: layer and group norm; with
// RMS, y = x * rstd * weight. rstd = 1 / sqrt(mean of (x - mean)² + eps), the mean subtracted first
// so that nothing cancels.
//
// weight and bias: one per column (layer norm), or, with CHANNELS, one per channel: row r holds the
// channels (r % groups) * group_channels …, `spatial` elements each (group norm).
// Defines: RMS, CHANNELS, WEIGHT, BIAS, MEAN and RSTD (whether these results are wanted).
// KEEP: an invocation keeps so many vectors of its row in registers (count and spatial are multiples
// of 4), else 0.
// Grid: as workgroup_reduction.glsl shares `rows` rows out.

#include "workgroup_reduction.glsl"

#if !PER_INVOCATION && !SUBGROUP
shared float partial_[LOCAL_X];
#endif

float plus(float a, float b) { return a + b; }

void main() {
  TV_ROW
  if (row >= rows) return;
  const uint start = row * count;

#if KEEP
  vec4 kept[KEEP];
  [[unroll]] for (uint k = 0u; k < KEEP; k++) {
    const uint c = 4u * (first + k * step);
    kept[k] = vec4(0.0);
    if (c < count) kept[k] = x_load4(start + c);
  }
#endif

  float center = 0.0;
#if !RMS
#if KEEP
  [[unroll]] for (uint k = 0u; k < KEEP; k++) {
    center += (kept[k].x + kept[k].y) + (kept[k].z + kept[k].w);
  }
#else
  for (uint c = first; c < count;) {
    const uint stop = min(count, c + 64u * step);
    float block = 0.0;
    for (; c < stop; c += step) block += x_load(start + c);
    center += block;
  }
#endif
#if !PER_INVOCATION
  TV_WORKGROUP_REDUCE(partial_, center, plus)
#endif
  center = tv_div(center, float(count));
#endif

  float spread = 0.0;
#if KEEP
  [[unroll]] for (uint k = 0u; k < KEEP; k++) {
    if (4u * (first + k * step) < count) {
      kept[k] -= center;
      spread += dot(kept[k], kept[k]);
    }
  }
#else
  for (uint c = first; c < count;) {
    const uint stop = min(count, c + 64u * step);
    float block = 0.0;
    for (; c < stop; c += step) {
      const float d = x_load(start + c) - center;
      block = fma(d, d, block);
    }
    spread += block;
  }
#endif
#if !PER_INVOCATION
  TV_WORKGROUP_REDUCE(partial_, spread, plus)
#endif
  const float inverse = tv_rsqrt(tv_div(spread, float(count)) + eps);

#if KEEP
  [[unroll]] for (uint k = 0u; k < KEEP; k++) {
    const uint c = 4u * (first + k * step);
    if (c < count) {
      vec4 r = kept[k] * inverse;
#if CHANNELS
      const uint channel = (row % groups) * group_channels + c / spatial;
#if WEIGHT
      r *= w_load(channel);
#endif
#if BIAS
      r += b_load(channel);
#endif
#else
#if WEIGHT
      r *= w_load4(c);
#endif
#if BIAS
      r += b_load4(c);
#endif
#endif
      y_store4(start + c, r);
    }
  }
#else
  for (uint c = first; c < count; c += step) {
    float r = (x_load(start + c) - center) * inverse;
#if CHANNELS
    const uint channel = (row % groups) * group_channels + c / spatial;
#else
    const uint channel = c;
#endif
#if WEIGHT
    r *= w_load(channel);
#endif
#if BIAS
    r += b_load(channel);
#endif
    y_store(start + c, r);
  }
#endif

  if (first == 0u) {
#if MEAN
    mean_store(row, center);
#endif
#if RSTD
    rstd_store(row, inverse);
#endif
  }
}
