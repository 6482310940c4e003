// sort_emit.comp on CPU drivers (simd.glsl), of lines of neighbours of which at least 2 LANES are
// wanted: PAIRS times two vectors a workgroup, of which those that would pass the line's end move
// back to it. Flat grid, `parts` for each line; one past the end repeats the last.
// Defines: INDICES, INT64_INDICES, UNIFORM_GROUP (what makes its number uniform).

const uint WIDE = 2u * LANES;

/// What the vector from `place` on says.
uint position(uint place) {
  return min(floatBitsToUint(simd_load(simd_at(tv_ref_f32(at_ptr), place))), count - 1u);
}

#if INDICES
/// A vector of indices on its way to memory.
simd_held hold_indices(uint to, uint v) {
#if INT64_INDICES
  return simd_store_u64(uint64_t(idx_ptr) + uint64_t(to) * 8ul, uint64_t(v));
#else
  return simd_held(0ul, 0ul);
#endif
}
void release_indices(simd_held h, uint to, uint v) {
#if INT64_INDICES
  simd_release(h);
#else
  idx_store(to + gl_SubgroupInvocationID, idx_T(v));
#endif
}
#endif

void main() {
  const uint g = min(UNIFORM_GROUP(tv_group()), rows * parts - 1u), row = g / parts;
  const uint first = (g - row * parts) * (PAIRS * WIDE);
  uint to[PAIRS], v[PAIRS][2];
  simd_held held[PAIRS];
  [[unroll]] for (uint q = 0u; q < PAIRS; q++) {
    const uint column = min(first + q * WIDE, limit - WIDE), line = from + row * pitch + column;
    to[q] = row * limit + column;
    [[unroll]] for (uint h = 0u; h < 2u; h++) v[q][h] = position(line + h * LANES);
    held[q] = y_simd_store2(to[q], y_T(x_load(row * count + v[q][0])),
                            y_T(x_load(row * count + v[q][1])));
  }
#if INDICES
  simd_held indices[PAIRS][2];
  [[unroll]] for (uint q = 0u; q < PAIRS; q++) {
    [[unroll]] for (uint h = 0u; h < 2u; h++) {
      indices[q][h] = hold_indices(to[q] + h * LANES, v[q][h]);
    }
  }
#endif
  SIMD_WAIT
  [[unroll]] for (uint q = 0u; q < PAIRS; q++) {
    y_simd_release(held[q]);
#if INDICES
    [[unroll]] for (uint h = 0u; h < 2u; h++) {
      release_indices(indices[q][h], to[q] + h * LANES, v[q][h]);
    }
#endif
  }
}
