// What the numbers of an output channel are like in the weight, for conv_matrix.comp (coopmat),
// DYNAMIC_SCALE: y[g][m] = (1 / s, sum of |s w|, least, s), where the power of two s brings the
// largest |w| to between 2^14 and 2^15. least: 0, or count * 2^15 where an |s w| other than 0 is
// below 2^-14, float16's least normal number: no sum of products of what float16 loses with numbers
// below 2^15 is larger in units of that loss. w: any strides. Grid: flat, one subgroup of 32 an
// output channel.

#include "conv_geometry.glsl"

void main() {
  const uint row = tv_group(), lane = gl_SubgroupInvocationID;
  if (row >= row_count) return;
  const uint g = row / oc_count, count = ic_count * CONV_TAPS;
  const uint from = w_0 + g * w_g + (row - g * oc_count) * w_oc;
  float largest = 0.0, sum = 0.0;
  uint least = 0xffffffffu;  // twice the bits of |w|, less one: the largest for 0
  for (uint k0 = 0u; k0 < count; k0 += 32u) {
    const uint k = min(k0 + lane, count - 1u), ic = k / CONV_TAPS;
    const float v = w_raw(from + CONV_WEIGHT(ic, conv_tap(k - ic * CONV_TAPS)));
    largest = max(largest, abs(v));
    if (k0 + lane < count) sum += abs(v);
    least = min(least, (floatBitsToUint(v) << 1) - 1u);
  }
  const uint top = max(subgroupMax(floatBitsToUint(largest)) >> 23, 17u);
  const float up = uintBitsToFloat((268u - top) << 23);
  // A little more for the rounding of the sum.
  const float all = subgroupAdd(sum) * 1.001 * up;
  const bool small = subgroupMin(least) < (max(top, 28u) - 28u) << 24;
  if (lane != 0u) return;
  y_raw_store(row * 4u, uintBitsToFloat((top - 14u) << 23));
  y_raw_store(row * 4u + 1u, all);
  y_raw_store(row * 4u + 2u, small ? float(count) * 32768.0 : 0.0);
  y_raw_store(row * 4u + 3u, up);
}
