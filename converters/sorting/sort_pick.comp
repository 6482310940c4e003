// One element of each sorted line, with its position: RULE KTH the `wanted`-th, MEDIAN the lower of
// the middle ones or, where there are any, the first nan; NANMEDIAN the middle of what is no nan.
//
// x: lines of `count` elements, `inner` apart; keys, at: lines `pitch` apart, read from `from` on.
// A line an invocation. An empty line gives nan. Defines: those of sort_key.glsl, RULE, INDICES.

#include "sort_key.glsl"

#define KTH 0
#define MEDIAN 1
#define NANMEDIAN 2

void main() {
  const uint row = tv_group() * LOCAL_X + gl_LocalInvocationID.x;
  if (row >= rows) return;
  if (count == 0u) {
#if FLOAT_KEY
    y_store(row, TV_NAN);
#else
    y_store(row, y_T(0));
#endif
    return;
  }
  const uint line = from + row * pitch;
#if RULE == KTH
  const uint place = wanted;
#else
  uint numbers = count;
#if FLOAT_KEY
  uint low = 0u;
  while (low < numbers) {
    const uint middle = (low + numbers) >> 1u;
    if (KEY(keys_raw(line + middle)) != 0xffffffffu) {
      low = middle + 1u;
    } else {
      numbers = middle;
    }
  }
#endif
#if RULE == MEDIAN
  const uint place = numbers < count ? numbers : (count - 1u) / 2u;
#else
  const uint place = (max(numbers, 1u) - 1u) / 2u;
#endif
#endif
  const uint at_i = min(uint(at_raw(line + place)), count - 1u), outer = row / inner;
  y_store(row, y_T(x_load((outer * count + at_i) * inner + (row - outer * inner))));
#if INDICES
  idx_store(row, idx_T(at_i));
#endif
}
