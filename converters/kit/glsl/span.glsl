// What a tile of LANES outputs reads of a row, on CPU drivers (simd.glsl): SPAN neighbours, brought
// into registers at once, from where each lane then takes elements of its own.
//
// Defines: SPAN; VECTORS, how many whole vectors of it a row surely has, the rest being scalars;
// BY_LANES: elements are loaded one by one, in VECTORS vectors. Operand x: row-major, fp32 unless
// BY_LANES.

const uint SPAN_REST = SPAN - VECTORS * LANES;

struct Span {
  float vectors[max(VECTORS, 1u)], rest[max(SPAN_REST, 1u)];
};

/// Where the span of a tile begins of which no lane reads elements before `first`, in a row of
/// `size` elements: all that a lane may read is then SPAN elements from there on.
uint span_start(uint first, uint size) { return min(first, size - min(SPAN, size)); }

Span span_zero() {
  Span s;
  [[unroll]] for (uint j = 0u; j < max(VECTORS, 1u); j++) s.vectors[j] = 0.0;
  [[unroll]] for (uint k = 0u; k < max(SPAN_REST, 1u); k++) s.rest[k] = 0.0;
  return s;
}

/// Elements start … of the row of `size` elements that begins at element `row` of x; past its end
/// the last one again.
Span span_load(uint row, uint start, uint size) {
  Span s = span_zero();
#if BY_LANES
  [[unroll]] for (uint j = 0u; j < VECTORS; j++) {
    s.vectors[j] = x_load(row + min(start + j * LANES + gl_SubgroupInvocationID, size - 1u));
  }
#else
  [[unroll]] for (uint j = 0u; j < VECTORS; j++) {
    s.vectors[j] = simd_load(simd_at(x_ptr, row + start + j * LANES));
  }
  [[unroll]] for (uint k = 0u; k < SPAN_REST; k++) {
    s.rest[k] = simd_scalar(simd_at(x_ptr, row + min(start + VECTORS * LANES + k, size - 1u)), 0u);
  }
#endif
  return s;
}

/// sum += weight * s, for a weight that is the same for all lanes.
void span_add(inout Span sum, Span s, float weight) {
  [[unroll]] for (uint j = 0u; j < max(VECTORS, 1u); j++) sum.vectors[j] += weight * s.vectors[j];
  [[unroll]] for (uint k = 0u; k < max(SPAN_REST, 1u); k++) sum.rest[k] += weight * s.rest[k];
}

/// sum += s, if `counts`, which is the same for all lanes.
void span_add_if(inout Span sum, Span s, bool counts) {
  [[unroll]] for (uint j = 0u; j < max(VECTORS, 1u); j++) {
    sum.vectors[j] += counts ? s.vectors[j] : 0.0;
  }
  [[unroll]] for (uint k = 0u; k < max(SPAN_REST, 1u); k++) {
    sum.rest[k] += counts ? s.rest[k] : 0.0;
  }
}

/// Element `at` of the span, each lane its own.
float span_at(Span s, uint at) {
  float r = 0.0;
  [[unroll]] for (uint k = 0u; k < VECTORS * LANES; k++) {
    r = mix(r, subgroupShuffle(s.vectors[k / LANES], k % LANES), at == k);
  }
  [[unroll]] for (uint k = 0u; k < SPAN_REST; k++) {
    r = mix(r, s.rest[k], at == VECTORS * LANES + k);
  }
  return r;
}

/// The sum of elements from … from + count - 1 of the span, each lane its own.
float span_sum(Span s, uint from, uint count) {
  float r = 0.0;
  [[unroll]] for (uint k = 0u; k < VECTORS * LANES; k++) {
    r += k - from < count ? subgroupShuffle(s.vectors[k / LANES], k % LANES) : 0.0;
  }
  [[unroll]] for (uint k = 0u; k < SPAN_REST; k++) {
    r += VECTORS * LANES + k - from < count ? s.rest[k] : 0.0;
  }
  return r;
}
