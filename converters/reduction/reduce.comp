// y[k] = finish(combine over r of x[k, r]): sum, product, extremes, any, all.
//
// x is walked by strides: `kept_OFFSETS` gives the offset of output k, `rows_OFFSETS` that of each
// run of `run` elements, `run_stride` apart; r counts through runs in order. A long reduction is
// cut into `chunks` parts of `part` elements: then y is a scratch of chunks × outputs partial
// results, which a second step combines. Sums are kept in blocks of 64, so that the rounding error
// grows with length / 64 and not with length. Defines: OP, ACC (type of the state), FLOAT_ACC,
// DIVIDE (by `divisor`, at the end), and FOURS: an output's elements are whole vectors of
// neighbours, read as such; `length` and `part` count vectors. Grid: as workgroup_reduction.glsl
// shares chunks × outputs out.

#include "reduce_combine.glsl"
#include "workgroup_reduction.glsl"

#if !PER_INVOCATION && !SUBGROUP
shared ACC partial_[LOCAL_X];
#endif

#if OP == OP_ANY || OP == OP_ALL
ACC read(uint i) { return x_element(i) != x_T(0) ? 1 : 0; }
#else
ACC read(uint i) { return ACC(x_element(i)); }
#endif

uint kept_offset(uint i) {
  kept_OFFSETS(i)
  return x_offset;
}

uint row_offset(uint i) {
  rows_OFFSETS(i)
  return x_offset;
}

#if FOURS
ACC read4(uint i) {
  const x_V v = x_four(i);
#if OP == OP_ANY || OP == OP_ALL
#define PART(e) (e != x_T(0) ? 1 : 0)
#else
#define PART(e) ACC(e)
#endif
  return combine(combine(PART(v.x), PART(v.y)), combine(PART(v.z), PART(v.w)));
}
#endif

// Elements first, first + step, … below `last` of output k.
ACC reduce_part(uint k, uint first, uint last, uint step) {
  const uint base = kept_offset(k);
  ACC acc = ACC(INIT);
#if FOURS
  for (uint r = first; r < last;) {
    const uint stop = min(last, r + 64u * step);
    ACC block = ACC(INIT);
    for (; r < stop; r += step) block = combine(block, read4(base + 4u * r));
    acc = combine(acc, block);
  }
#elif SINGLE_RUN
  for (uint r = first; r < last;) {
    const uint stop = min(last, r + 64u * step);
    ACC block = ACC(INIT);
    for (; r < stop; r += step) block = combine(block, read(base + r * run_stride));
    acc = combine(acc, block);
  }
#elif PER_INVOCATION
  uint row = first / run;
  uint at = first - row * run;
  for (uint r = first; r < last; ++row) {
    const uint start = base + row_offset(row);
    const uint stop = min(run, at + (last - r));
    r += stop - at;
    while (at < stop) {
      const uint block_stop = min(stop, at + 64u);
      ACC block = ACC(INIT);
      for (; at < block_stop; ++at) block = combine(block, read(start + at * run_stride));
      acc = combine(acc, block);
    }
    at = 0u;
  }
#else
  for (uint r = first; r < last;) {
    const uint stop = min(last, r + 64u * step);
    ACC block = ACC(INIT);
    for (; r < stop; r += step) {
      const uint row = r / run;
      block = combine(block, read(base + row_offset(row) + (r - row * run) * run_stride));
    }
    acc = combine(acc, block);
  }
#endif
  return acc;
}

void main() {
  TV_ROW
  const uint id = row;
  if (id >= outputs * chunks) return;
  const uint chunk = id / outputs;
  const uint begin = chunk * part;
  const uint end = min(length, begin + part);
#if PER_INVOCATION
  ACC acc = reduce_part(id - chunk * outputs, begin, end, 1u);
#else
  ACC acc = reduce_part(id - chunk * outputs, begin + first, end, step);
  TV_WORKGROUP_REDUCE(partial_, acc, combine)
  if (first != 0u) return;
#endif
#if DIVIDE
  acc = tv_div(acc, float(divisor));
#endif
  y_store(id, y_T(acc));
}
