// idx[k] = position of the first extreme over the reduced elements of output k, y[k] the extreme
// itself; a nan counts as the extreme (torch's rule).
//
// x is walked as in reduce.comp: `kept_OFFSETS`, `rows_OFFSETS`, runs of `run` elements
// `run_stride` apart. Elements are compared as KEY: floats as themselves, everything else as int64
// or int. Defines: KEY, FLOAT_KEY, LARGEST, VALUES, INDICES, PER_INVOCATION, SUBGROUP, SINGLE_RUN.
// Grid: PER_INVOCATION: an invocation, else a workgroup, for each of `outputs`.

#define TV_SHUFFLE(v, mask) \
  Best(subgroupShuffleXor((v).key, mask), subgroupShuffleXor((v).at, mask))
#include "workgroup_reduction.glsl"

struct Best {
  KEY key;
  uint at;  // `length`: none yet
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
  if (a.at == length) return b;
  if (b.at == length) return a;
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

void main() {
#if PER_INVOCATION
  const uint id = tv_group() * LOCAL_X + gl_LocalInvocationID.x;
  const uint first = 0u, step = 1u;
#else
  const uint id = tv_group();
  const uint first = gl_LocalInvocationID.x, step = LOCAL_X;
#endif
  if (id >= outputs) return;
  const uint base = kept_offset(id);
  Best best = Best(KEY(0), length);
  for (uint r = first; r < length; r += step) {
#if SINGLE_RUN
    const uint at = base + r * run_stride;
#else
    const uint row = r / run;
    const uint at = base + row_offset(row) + (r - row * run) * run_stride;
#endif
    const KEY key = KEY(x_element(at));
    // Elements come in ascending order: only a strictly better one replaces the best.
    if (best.at == length || (!is_nan(best.key) && (is_nan(key) || ahead(key, best.key)))) {
      best = Best(key, r);
    }
  }
#if !PER_INVOCATION
  TV_WORKGROUP_REDUCE(partial_, best, better)
  if (gl_LocalInvocationID.x != 0u) return;
#endif
#if VALUES
  y_store(id, y_T(best.key));
#endif
#if INDICES
  idx_store(id, int64_t(best.at));
#endif
}
