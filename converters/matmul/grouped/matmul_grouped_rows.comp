// matmul_grouped_reference.comp for few rows: a row reads the matrix of its group alone, four steps
// of k an invocation. A subgroup of LANES_K invocations has COLUMNS columns n of one row; its
// invocations share k.
// Grid: (ceil(n_count / (COLUMNS * subgroups)), rows, 1).

#define FOR(i, n) [[unroll]] for (uint i = 0u; i < uint(n); i++)

/// The first group that ends behind row s; `groups` if none does.
uint group_of(uint s, uint lane) {
  uint first = groups;
  for (uint e = lane; e < groups; e += LANES_K) {
    if (ends_raw(e) > ends_T(s)) first = min(first, e);
  }
  return subgroupMin(first);
}

void main() {
  const uint lane = gl_SubgroupInvocationID, s = gl_WorkGroupID.y;
  const uint n0 = (gl_WorkGroupID.x * (LOCAL_X / LANES_K) + gl_SubgroupID) * COLUMNS;
  const uint e = group_of(s, lane);
  float sum[COLUMNS];
  FOR(c, COLUMNS) sum[c] = 0.0;
  if (e < groups) {
    uint at[COLUMNS];
    FOR(c, COLUMNS) at[c] = (e * n_count + min(n0 + c, n_count - 1u)) * k_count;
    for (uint k = lane * 4u; k < k_count; k += LANES_K * 4u) {
      const vec4 x = vec4(a_vec4(s * k_count + k));
      FOR(c, COLUMNS) sum[c] += dot(x, vec4(b_vec4(at[c] + k)));
    }
  }
  FOR(c, COLUMNS) {
    const float all = subgroupAdd(sum[c]);
    if (lane == 0u && n0 + c < n_count) y_store(s * n_count + n0 + c, y_T(all));
  }
}
