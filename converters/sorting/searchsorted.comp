// y[i] = how many boundaries of i's line are smaller than x[i] (RIGHT: or equal), by bisection. As
// in torch a nan, on either side, counts as a boundary that is smaller.
//
// boundaries: lines of `count` elements, one for each `line_values` values; with SORTER, in the
// order that sorter gives. X(i) is the value as a KEY. One value an invocation.
// Defines: KEY, FLOAT_KEY, X(i), B(v), RIGHT, SORTER.

bool before(KEY boundary, KEY v) {
#if FLOAT_KEY
  if (tv_isnan(boundary) || tv_isnan(v)) return true;
#endif
#if RIGHT
  return boundary <= v;
#else
  return boundary < v;
#endif
}

void main() {
  const uint id = tv_group() * LOCAL_X + gl_LocalInvocationID.x;
  if (id >= values) return;
  const KEY v = X(id);
  const uint line = id / line_values * count;
#if SORTER
  // All of it, once: bisections see a part.
  for (uint k = id; k < values / line_values * count; k += values) {
    tv_place(int64_t(sorter_load(k)), count);
  }
#endif
  uint low = 0u, high = count;
  while (low < high) {
    const uint middle = (low + high) >> 1u;
#if SORTER
    const uint at = tv_near(int64_t(sorter_load(line + middle)), count);
#else
    const uint at = middle;
#endif
    if (before(B(boundaries_load(line + at)), v)) {
      low = middle + 1u;
    } else {
      high = middle;
    }
  }
  y_store(id, y_T(low));
}
