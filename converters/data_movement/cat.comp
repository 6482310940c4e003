// y[o, c, k] = the input that position c falls in: up to eight inputs x0, x1, … in one launch.
//
// end0, end1, … are the ends of the inputs' shares of an output slab (inner · Σ sizes), counted
// from `base`; CAT_PARTS(o, at, to): a PART for each input; element `at` of slab o goes to element
// `to` of y. One element of this launch's share of y an invocation.

#define PART(load, begin, end, o, at, to)                   \
  if (at < end) {                                           \
    y_store(to, y_T(load(o * (end - begin) + at - begin))); \
    return;                                                 \
  }

void main() {
  const uint id = tv_group() * LOCAL_X + gl_LocalInvocationID.x;
  if (id >= elements) return;
  const uint o = id / share;
  const uint at = id - o * share;
  const uint to = o * out_slab + base + at;
  CAT_PARTS(o, at, to)
}
