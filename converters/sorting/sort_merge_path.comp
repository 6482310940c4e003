// Merges each two neighbouring sorted runs of `run` elements of a line into one, stably. Only the
// first `limit` of a run are there, and of the result are wanted.
//
// keys, at: [2, rows, count], read from `from` elements on and written from `to` on. CHUNK elements
// of a merged run an invocation, one after the other: where they begin in either run is found by
// bisection (Odeh et al., Merge Path, 2012). `chunks` for each of `pairs` pairs of each line.
// Defines: KEY, CHUNK.

KEY key_at(uint i) { return KEY(keys_raw(i)); }

void main() {
  const uint id = tv_group() * LOCAL_X + gl_LocalInvocationID.x;
  const uint chunk = id % chunks, of_rows = id / chunks, pair = of_rows % pairs,
      row = of_rows / pairs;
  if (row >= rows) return;
  const uint base = 2u * pair * run, left = from + row * count + base, right = left + run;
  const uint here = count - base;  // at least 1
  const uint a_count = min(min(run, here), alive);
  const uint b_count = here > run ? min(min(run, here - run), alive) : 0u;
  const uint begin = chunk * CHUNK, end = min(min(begin + CHUNK, a_count + b_count), limit);
  if (begin >= end) return;
  // The number of a's elements among the first `begin`: of equals a's come first.
  uint low = begin > b_count ? begin - b_count : 0u, high = min(begin, a_count);
  while (low < high) {
    const uint middle = (low + high) >> 1u;
    if (key_at(left + middle) <= key_at(right + begin - 1u - middle)) {
      low = middle + 1u;
    } else {
      high = middle;
    }
  }
  uint a = low, b = begin - low;
  const uint target = to + row * count + base;
  KEY of_a = a < a_count ? key_at(left + a) : KEY(0),
      of_b = b < b_count ? key_at(right + b) : KEY(0);
  for (uint k = begin; k < end; ++k) {
    const bool takes_a = b >= b_count || (a < a_count && of_a <= of_b);
    const uint source = takes_a ? left + a : right + b;
    keys_raw_store(target + k, keys_T(takes_a ? of_a : of_b));
    at_raw_store(target + k, at_raw(source));
    // No branch: CPU drivers would go both ways.
    const uint last = takes_a ? left + a_count - 1u : right + b_count - 1u;
    const KEY next = key_at(min(source + 1u, last));
    a += takes_a ? 1u : 0u;
    b += takes_a ? 0u : 1u;
    of_a = takes_a ? next : of_a;
    of_b = takes_a ? of_b : next;
  }
}
