// out_k[i] = program_k(in_0[i], in_1[i], …) over `numel` elements; the generated tv_pointwise does
// the work. Grid: flat; each invocation computes UNROLL elements (UNROLL x 4 with VEC4), one
// workgroup's width apart, so that neighbours in a workgroup touch neighbours in memory. With RUN,
// each reads RUN vectors before it writes the first.

#ifdef RUN
void main() {
  tv_pointwise_run(tv_group() * (LOCAL_X * RUN) + gl_LocalInvocationID.x, LOCAL_X, numel >> 2);
}
#else
void main() {
#ifdef VEC4
  const uint count = numel >> 2;
#else
  const uint count = numel;
#endif
  const uint first = tv_group() * (LOCAL_X * UNROLL) + gl_LocalInvocationID.x;
  [[unroll]] for (uint k = 0; k < UNROLL; ++k) {
    const uint i = first + k * LOCAL_X;
    if (i < count) {
#ifdef VEC4
      tv_pointwise4(i << 2);
#else
      tv_pointwise(i);
#endif
    }
  }
}
#endif
