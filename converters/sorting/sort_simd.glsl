// Sorting by (key, position) in registers on CPU drivers (simd.glsl): every network is fixed, so
// that loads, comparisons and stores are whole vectors. A line's keys and positions lie in blocks
// of BLOCK = VECTORS * LANES, and behind all lines there is one more block, which stands for what
// does not exist.
// Defines: those of sort_key.glsl, VECTORS, and UNIFORM_GROUP, what makes the workgroup's number
// uniform.

const uint BLOCK = VECTORS * LANES;

bool comes_before(KEY k, uint i, KEY l, uint j) { return k < l || (k == l && i < j); }

/// Puts the pairs in order.
void order(inout KEY k, inout uint i, inout KEY l, inout uint j) {
  const bool swap = comes_before(l, j, k, i);
  const KEY key = k;
  const uint at = i;
  k = swap ? l : k;
  i = swap ? j : i;
  l = swap ? key : l;
  j = swap ? at : j;
}

/// What the lane has whose number differs in the bits of `mask`.
uint across(uint v, uint mask) { return subgroupShuffleXor(v, mask); }
int64_t across(int64_t v, uint mask) {
  const uvec2 words = unpackUint2x32(uint64_t(v));
  return int64_t(packUint2x32(uvec2(across(words.x, mask), across(words.y, mask))));
}

/// Of a pair here and one elsewhere the first, or the last.
void keep(inout KEY k, inout uint i, KEY l, uint j, bool first) {
  const bool mine = comes_before(k, i, l, j) == first;
  k = mine ? k : l;
  i = mine ? i : j;
}

/// Orders lanes by pairs: those that differ in `bit`.
void cross(inout KEY k, inout uint i, uint bit) {
  keep(k, i, across(k, bit), across(i, bit), (gl_SubgroupInvocationID & bit) == 0u);
}

/// Orders k of each of 2 `bit` lanes with l of the mirrored one.
void mirror(inout KEY k, inout uint i, inout KEY l, inout uint j, uint bit) {
  const uint mask = 2u * bit - 1u;
  const bool first = (gl_SubgroupInvocationID & bit) == 0u;
  const KEY of_l = across(l, mask), of_k = across(k, mask);
  const uint at_l = across(j, mask), at_k = across(i, mask);
  keep(k, i, of_l, at_l, first);
  keep(l, j, of_k, at_k, first);
}

void reverse_lanes(inout KEY k, inout uint i) {
  k = across(k, LANES - 1u);
  i = across(i, LANES - 1u);
}

/// Of k and the mirrored l the first go to k.
void lower(inout KEY k, inout uint i, KEY l, uint j) {
  reverse_lanes(l, j);
  keep(k, i, l, j, true);
}
