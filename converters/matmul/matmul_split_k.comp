// y[i] = sum over s < SPLIT of part[s * total + i], in order: what workgroups that share the steps
// of k of a product have found, through the fused epilogue.
//
// FOURS: total is a multiple of 4, and an invocation takes four neighbours. All parts are read
// before the first is added, so that the loads are under way at once.
// Grid: flat, one invocation for each element, or each four.

void main() {
  const uint i = tv_group() * LOCAL_X + gl_LocalInvocationID.x;
#if FOURS
  if (i >= total / 4u) return;
  vec4 p[SPLIT];
  [[unroll]] for (uint s = 0u; s < SPLIT; s++) p[s] = part_vec4((s * (total / 4u) + i) * 4u);
  vec4 sum = p[0];
  [[unroll]] for (uint s = 1u; s < SPLIT; s++) sum += p[s];
  y_store4(i * 4u, sum);
#else
  if (i >= total) return;
  float p[SPLIT];
  [[unroll]] for (uint s = 0u; s < SPLIT; s++) p[s] = part_raw(s * total + i);
  float sum = p[0];
  [[unroll]] for (uint s = 1u; s < SPLIT; s++) sum += p[s];
  y_store(i, y_T(sum));
#endif
}
