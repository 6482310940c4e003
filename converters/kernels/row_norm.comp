// y = (x - mean) * rstd * weight + bias over rows of `count` neighbours: layer and group norm; with
// RMS, y = x * rstd * weight. rstd = 1 / sqrt(mean of (x - mean)² + eps), the mean subtracted first
// so that nothing cancels.
//
// weight and bias: one per column (layer norm), or, with CHANNELS, one per channel: row r holds the
// channels (r % groups) * group_channels …, `spatial` elements each (group norm).
// Defines: RMS, CHANNELS, WEIGHT, BIAS, MEAN and RSTD (whether these results are wanted).
// Grid: LANE: an invocation, else a workgroup, for each of `rows` rows.

#include "tree.glsl"

#if !LANE && !SUBGROUP
shared float tree_[LOCAL_X];
#endif

float plus(float a, float b) { return a + b; }

void main() {
#if LANE
  const uint row = tv_group() * LOCAL_X + gl_LocalInvocationID.x;
  const uint first = 0u, step = 1u;
#else
  const uint row = tv_group();
  const uint first = gl_LocalInvocationID.x, step = LOCAL_X;
#endif
  if (row >= rows) return;
  const uint start = row * count;

  float center = 0.0;
#if !RMS
  for (uint c = first; c < count;) {
    const uint stop = min(count, c + 64u * step);
    float block = 0.0;
    for (; c < stop; c += step) block += x_load(start + c);
    center += block;
  }
#if !LANE
  TV_TREE(tree_, center, plus)
#endif
  center = tv_div(center, float(count));
#endif

  float spread = 0.0;
  for (uint c = first; c < count;) {
    const uint stop = min(count, c + 64u * step);
    float block = 0.0;
    for (; c < stop; c += step) {
      const float d = x_load(start + c) - center;
      block = fma(d, d, block);
    }
    spread += block;
  }
#if !LANE
  TV_TREE(tree_, spread, plus)
#endif
  const float inverse = tv_div(1.0, sqrt(tv_div(spread, float(count)) + eps));

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

  if (first == 0u) {
#if MEAN
    mean_store(row, center);
#endif
#if RSTD
    rstd_store(row, inverse);
#endif
  }
}
