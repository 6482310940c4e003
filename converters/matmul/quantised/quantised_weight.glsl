// A quantised matrix as it is packed: element (n, k) is (value - zero point) * scale.
//
// CODES: it is FROM_CODE of its code, without a zero point; SCALE_CODES: scales are FROM_SCALE_CODE
// of theirs.
//
// q: rows of K elements of BITS; scale, zero: one for each group_steps of k, SCALE_ROW apart
// from one row to the next (0: all rows share them). HAS_SCALE, HAS_ZERO: whether there are any.

const float QUANTISED_OFFSET = BITS == 4 && CODES == 0 ? 8.0 : 0.0;

/// Where the byte of element (n, k) is. Q_IN_RUNS: the matrix is as matmul_quantised_pack.comp has
/// it.
uint quantised_byte(uint n, uint k) {
#if Q_IN_RUNS
  const uint run = BITS * 2u;  // bytes of 16 elements
  return ((n / 16u * (ROW_BYTES / run) + k / 16u) * 16u + n % 16u) * run + k % 16u * BITS / 8u;
#else
  return n * ROW_BYTES + k * BITS / 8u;
#endif
}

float quantised_value(uint n, uint k) {
#if BITS == 4
  const uint both = uint(q_raw(quantised_byte(n, k)));
  const uint element = k % 2u == 0u ? both & 15u : both >> 4;
#if CODES
  return FROM_CODE(element);
#else
  return float(element);
#endif
#elif CODES
  return FROM_CODE(uint(q_raw(quantised_byte(n, k))));
#else
  return float(q_raw(quantised_byte(n, k)));
#endif
}

float quantised_scale(uint n, uint group) {
#if SCALE_CODES
  return FROM_SCALE_CODE(uint(scale_raw(n * SCALE_ROW + group)));
#elif HAS_SCALE
  return float(scale_raw(n * SCALE_ROW + group));
#else
  return 1.0;
#endif
}

float quantised_zero(uint n, uint group) {
#if HAS_ZERO
  return float(zero_raw(n * SCALE_ROW + group));
#else
  return QUANTISED_OFFSET;
#endif
}

float quantised_weight(uint n, uint k) {
  const uint group = k / group_steps;
  return (quantised_value(n, k) - quantised_zero(n, group)) * quantised_scale(n, group);
}
