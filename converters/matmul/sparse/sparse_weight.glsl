// A matrix of weights of which two in each four neighbours along k are kept (2:4 sparsity): values
// [n][k / 2] in the order of k, index [n][k / 8], 4 bits for each four: where the first and the
// second of its two values belong, 2 bits each, the lower ones first.

/// Four neighbours, of the two values that are kept; `places`: 4 bits of the index.
vec4 four_of(vec2 kept, uint places) {
  const uvec4 at = uvec4(0u, 1u, 2u, 3u);
  const bvec4 first = equal(uvec4(places & 3u), at), second = equal(uvec4(places >> 2 & 3u), at);
  return mix(mix(vec4(0.0), vec4(kept.y), second), vec4(kept.x), first);
}

/// Elements k … k + 3 of row n, k a multiple of 4; k_count is one of 8.
vec4 sparse_four(uint n, uint k) {
  const uint places = uint(index_raw(n * (k_count / 8u) + k / 8u)) >> (k & 4u);
  const uint at = n * (k_count / 2u) + k / 2u;
  return four_of(vec2(values_raw(at), values_raw(at + 1u)), places & 15u);
}
