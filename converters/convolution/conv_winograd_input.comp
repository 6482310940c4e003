// y[z][p][k][t] = (B^T d B)[p], d being the patch of channel k that tile t reads: input in
// Winograd's points, on CPU drivers (simd.glsl).
//
// x: what conv_pad makes with a stride of OUT. Tiles t count those of a row of OUT x OUT outputs,
// rows being `pitch` apart; those past the end of a row are not outputs. Row (z, p, k) of y at
// ((z * POINTS + p) * channels + k) * tiles.
// Grid: (tiles / (2 * LANES), channels, z).

#include "winograd.glsl"

void main() {
  const uint t = simd_uniform(gl_WorkGroupID.x) * (2u * LANES);
  const uint k = simd_uniform(gl_WorkGroupID.y), z = simd_uniform(gl_WorkGroupID.z);
  tv_ref_f32 px = simd_at(x_ptr, (z * channels + k) * plane + t);
  float d[2][WINOGRAD_IN][WINOGRAD_IN];  // of each half, by columns and then rows
  [[unroll]] for (uint j = 0u; j < WINOGRAD_IN; j++) {
    [[unroll]] for (uint i = 0u; i < WINOGRAD_IN; i++) {
      const uint phase = i % OUT * OUT + j % OUT;
      tv_ref_f32 p = simd_at(px, phase * phase_size + i / OUT * pitch + j / OUT);
      d[0][j][i] = simd_load(p);
      d[1][j][i] = simd_load(simd_at(p, LANES));
    }
    winograd_input(d[0][j]);
    winograd_input(d[1][j]);
  }
  simd_held held[WINOGRAD_POINTS];
  const uint to = (z * WINOGRAD_POINTS * channels + k) * tiles + t, point = channels * tiles;
  [[unroll]] for (uint i = 0u; i < WINOGRAD_IN; i++) {
    float rows[2][WINOGRAD_IN];
    [[unroll]] for (uint j = 0u; j < WINOGRAD_IN; j++) {
      rows[0][j] = d[0][j][i];
      rows[1][j] = d[1][j][i];
    }
    winograd_input(rows[0]);
    winograd_input(rows[1]);
    [[unroll]] for (uint j = 0u; j < WINOGRAD_IN; j++) {
      const uint p = i * WINOGRAD_IN + j;
      held[p] = simd_store2(simd_at(y_ptr, to + p * point), rows[0][j], rows[1][j]);
    }
  }
  SIMD_WAIT
  [[unroll]] for (uint p = 0u; p < WINOGRAD_POINTS; p++) simd_release(held[p]);
}
