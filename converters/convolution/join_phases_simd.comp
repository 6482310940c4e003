// join_phases.comp on CPU drivers (simd.glsl): which element of a phase's row a lane takes is known
// to the compiler, as tiles begin at multiples of the stride; where the rows lie is uniform.
//
// Rows are those of row_tiles.glsl. Defines: those, and STRIDE_W, START_W, SPLIT_W.

#include "join_phases.glsl"
#include "row_tiles.glsl"

tv_ref_f32 tensor_of(uint part_h, uint part_w) {
  const uint64_t above = part_w == 0u ? uint64_t(t0_ptr) : uint64_t(t1_ptr);
  const uint64_t below = part_w == 0u ? uint64_t(t2_ptr) : uint64_t(t3_ptr);
  return tv_ref_f32(part_h == 0u ? above : below);
}

/// A vector of row `oh`, from column `first` on.
float vector_of(uint plane, uint oh, uint first) {
  const uint image = tile_quotient(plane, oc), channel = plane - image * oc;
  const uint uh = oh + start_h, qh = uh / stride_h;
  const JoinPhase h = join_phase(uh - qh * stride_h, split_h, stride_h);
  const uint last = (width_out - 1u + START_W) / STRIDE_W;
  float v = 0.0;
  [[unroll]] for (uint k = 0u; k < LANES; k++) {
    const JoinPhase w = join_phase((k + START_W) % STRIDE_W, SPLIT_W, STRIDE_W);
    uint q = first / STRIDE_W + (k + START_W) / STRIDE_W;
#if !WHOLE
    q = min(q, last);
#endif
    const uint at = join_row(image, channel, qh, h, w) + q;
    const float x = simd_scalar(simd_at(tensor_of(h.part, w.part), at), 0u);
    v = mix(v, x, gl_SubgroupInvocationID == k);
  }
  return v;
}

void main() {
  const RowTile t = row_tile();
  float v[ROWS][HALVES];
  [[unroll]] for (uint r = 0u; r < ROWS; r++) {
    [[unroll]] for (uint h = 0u; h < HALVES; h++) {
      v[r][h] = vector_of(t.z, row_of_tile(t, r), t.first + h * LANES);
    }
  }
  store_rows(t, v);
}
