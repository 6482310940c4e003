// idx[k] = position of the first extreme over the reduced elements of output k, y[k] the extreme
// itself; a nan counts as the extreme (torch's rule).
//
// x is walked as in reduce.comp: `kept_OFFSETS`, `rows_OFFSETS`, runs of `run` elements
// `run_stride` apart. Elements are compared as KEY: floats as themselves, everything else as int64
// or int. The elements of an output may be cut into `chunks` of `part`: PARTIAL writes the best of
// each chunk, `chunks` × outputs keys and positions `place`; MERGE reads those as its elements.
// Defines: KEY, FLOAT_KEY, LARGEST, VALUES, INDICES, PARTIAL, MERGE, PER_INVOCATION, SUBGROUP,
// SINGLE_RUN. Grid: PER_INVOCATION: an invocation, else a workgroup, for each chunk of an output.

#define TV_SHUFFLE(v, mask) \
  Best(subgroupShuffleXor((v).key, mask), subgroupShuffleXor((v).at, mask))
#include "workgroup_reduction.glsl"

const uint NONE = 0xffffffffu;

struct Best {
  KEY key;
  uint at;  // NONE: none yet
};

#if !PER_INVOCATION && !SUBGROUP
shared Best partial_[LOCAL_X];
#endif

#if FLOAT_KEY
bool is_nan(KEY v) { return tv_isnan(v); }
#else
bool is_nan(KEY v) { return false; }
#endif

bool ahead(KEY a, KEY b) {
#if LARGEST
  return a > b;
#else
  return a < b;
#endif
}

// The better of two; of equals the earlier, so that the order of combining does not matter.
Best better(Best a, Best b) {
  if (a.at == NONE) return b;
  if (b.at == NONE) return a;
  const bool a_nan = is_nan(a.key), b_nan = is_nan(b.key);
  if (a_nan != b_nan) return a_nan ? a : b;
  if (!a_nan) {
    if (ahead(a.key, b.key)) return a;
    if (ahead(b.key, a.key)) return b;
  }
  return a.at < b.at ? a : b;
}

uint kept_offset(uint i) {
  kept_OFFSETS(i)
  return x_offset;
}

uint row_offset(uint i) {
  rows_OFFSETS(i)
  return x_offset;
}

/// The best of every step-th element from begin to end - 1 of the output whose elements begin at
/// `base`.
Best best_of(uint base, uint begin, uint end, uint step) {
  Best best = Best(KEY(0), NONE);
  for (uint r = begin; r < end; r += step) {
#if SINGLE_RUN
    const uint at = base + r * run_stride;
#else
    const uint row = r / run;
    const uint at = base + row_offset(row) + (r - row * run) * run_stride;
#endif
    const KEY key = KEY(x_element(at));
#if MERGE
    const uint place = uint(place_raw(at));
    if (place == NONE) continue;
#else
    const uint place = r;
#endif
    // Elements come in ascending order: only a strictly better one replaces the best.
    if (best.at == NONE || (!is_nan(best.key) && (is_nan(key) || ahead(key, best.key)))) {
      best = Best(key, place);
    }
  }
  return best;
}

void store(uint id, Best best) {
#if PARTIAL
  key_raw_store(id, best.key);
  place_raw_store(id, int(best.at));
#else
#if VALUES
  y_store(id, y_T(best.key));
#endif
#if INDICES
  idx_store(id, idx_T(best.at));
#endif
#endif
}

void main() {
#if PER_INVOCATION
  const uint id = tv_group() * LOCAL_X + gl_LocalInvocationID.x;
  const uint first = 0u, step = 1u;
#else
  const uint id = tv_group();
  const uint first = gl_LocalInvocationID.x, step = LOCAL_X;
#endif
  if (id >= outputs * chunks) return;
  const uint chunk = id / outputs;
  const uint begin = min(chunk * part, length), end = min(begin + part, length);
  Best best = best_of(kept_offset(id - chunk * outputs), begin + first, end, step);
#if !PER_INVOCATION
  TV_WORKGROUP_REDUCE(partial_, best, better)
  if (gl_LocalInvocationID.x != 0u) return;
#endif
  store(id, best);
}
