// Merges each WAYS neighbouring sorted runs of `run` elements of a line into one, stably: an
// element goes to its place in its own run plus, for every other, the number of elements before it
// there, found by bisection. Only the first `limit` of a run are there, and of the result are
// wanted.
//
// keys, at: [2, rows, count], read from `from` elements on and written from `to` on. One element an
// invocation: `alive` = min(run, limit) for each of `runs` runs of each line. Defines: KEY, WAYS.

KEY key_at(uint i) { return KEY(keys_raw(i)); }

void main() {
  const uint id = tv_group() * LOCAL_X + gl_LocalInvocationID.x;
  const uint i = id % alive, of_rows = id / alive, own = of_rows % runs, row = of_rows / runs;
  if (row >= rows) return;
  if (own * run + i >= count) return;
  const uint line = row * count, base = own - own % WAYS;
  const KEY key = key_at(from + line + own * run + i);
  uint place = i;
  for (uint k = 0u; k < WAYS; ++k) {
    const uint other = base + k;
    if (other == own || other >= runs) continue;
    const uint start = from + line + other * run;
    uint low = 0u, high = min(alive, count - other * run);
    while (low < high) {
      const uint middle = (low + high) >> 1u;
      const KEY there = key_at(start + middle);
      // Of equals those of the runs in front come first.
      if (there < key || (there == key && other < own)) {
        low = middle + 1u;
      } else {
        high = middle;
      }
    }
    place += low;
  }
  if (place >= limit) return;
  const uint target = to + line + base * run + place;
  keys_raw_store(target, keys_T(key));
  at_raw_store(target, at_raw(from + line + own * run + i));
}
