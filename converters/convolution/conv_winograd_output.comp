// y[z][oc][pixels of tile t] = A^T c[z][..][oc][t] A + bias[oc]: sums in Winograd's points through
// the fused epilogue, on CPU drivers (simd.glsl).
//
// c: the sums of point p at (z * POINTS + p) * c_z + oc * c_m. Tiles t count those of a row of
// OUT x OUT outputs, rows being `pitch` apart; those past the end of a row are not outputs.
// Grid: (ceil(tiles / LANES), oc_count, z).

#include "conv_pairs.glsl"
#include "winograd.glsl"

void main() {
  const uint first = simd_uniform(gl_WorkGroupID.x) * LANES;
  const uint oc = simd_uniform(gl_WorkGroupID.y), z = simd_uniform(gl_WorkGroupID.z);
  tv_ref_f32 pc = simd_at(c_ptr, z * WINOGRAD_POINTS * c_z + oc * c_m + first);
  float rows[WINOGRAD_IN][OUT];
  [[unroll]] for (uint i = 0u; i < WINOGRAD_IN; i++) {
    float m[WINOGRAD_IN];
    [[unroll]] for (uint j = 0u; j < WINOGRAD_IN; j++) {
      m[j] = simd_load(simd_at(pc, (i * WINOGRAD_IN + j) * c_z));
    }
    winograd_output(m, rows[i]);
  }
  float add = 0.0;
#if BIAS
  add = float(bias_raw(oc));
#endif
  const uint t = first + gl_SubgroupInvocationID, row = conv_quotient(t, pitch);
  const uint h = row * OUT, w = (t - row * pitch) * OUT;
  const uint to = (z * oc_count + oc) * out_h;
  [[unroll]] for (uint j = 0u; j < OUT; j++) {
    float m[WINOGRAD_IN], y[OUT];
    [[unroll]] for (uint i = 0u; i < WINOGRAD_IN; i++) m[i] = rows[i][j];
    winograd_output(m, y);
    [[unroll]] for (uint i = 0u; i < OUT; i++) {
      if (h + i < out_h && w + j < out_w) {
        y_store((to + h + i) * out_w + w + j, y_T(y[i] + add));
      }
    }
  }
}
