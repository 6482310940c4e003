// A matrix b [n_count][k_count] of any strides as its 2:4 sparse form (sparse_weight.glsl). Of each
// four neighbours along k two at most are not zero: a matrix of which that is not true is reported.
// One byte of the index an invocation, k_count a multiple of 8.

// without the sign
uint bits_of(uint at) { return floatBitsToUint(float(b_raw(at))) & 0x7fffffffu; }

/// Where the two values of four neighbours from `at` on are, in the order of k.
uvec2 places_of(uint at) {
  uint first = 4u, second = 4u, count = 0u;
  [[unroll]] for (uint e = 0u; e < 4u; e++) {
    const bool kept = bits_of(at + e * b_k) != 0u;
    second = kept && count == 1u ? e : second;
    first = kept && count == 0u ? e : first;
    count += kept ? 1u : 0u;
  }
  if (count > 2u) tv_bad_operand = kTvNotTwoFour + 1u;
  if (count == 0u) return uvec2(0u, 1u);
  if (count > 1u) return uvec2(first, second);
  return first == 0u ? uvec2(0u, 1u) : uvec2(0u, first);  // beside a zero
}

void main() {
  const uint i = tv_group() * LOCAL_X + gl_LocalInvocationID.x;
  if (i >= total) return;
  const uint row = k_count / 8u, n = i / row, k = (i - n * row) * 8u;
  uint byte = 0u;
  [[unroll]] for (uint half_ = 0u; half_ < 2u; half_++) {
    const uint at = n * b_n + (k + half_ * 4u) * b_k, to = i * 4u + half_ * 2u;
    const uvec2 places = places_of(at);
    values_raw_store(to, b_raw(at + places.x * b_k));
    values_raw_store(to + 1u, b_raw(at + places.y * b_k));
    byte |= (places.x | places.y << 2) << (half_ * 4u);
  }
  index_raw_store(i, int(byte));
}
