// start[r] = how many of the sorted keys are less than r, for r = 0 … rows: where the entries of
// row r begin. One r an invocation, by bisection. Defines: those of sort_key.glsl.

#include "sort_key.glsl"

void main() {
  const uint id = tv_group() * LOCAL_X + gl_LocalInvocationID.x;
  if (id > rows) return;
  const KEY own = key_of(int(id));
  uint low = 0u, high = entries;
  while (low < high) {
    const uint middle = (low + high) >> 1u;
    if (KEY(keys_raw(middle)) < own) {
      low = middle + 1u;
    } else {
      high = middle;
    }
  }
  start_store(id, int(low));
}
