// c[z][m][n] (+)= sum over s and k of a[z][m][a_0 + s * SEG + k] * b[z][b_s<s> + k * b_k + n].
//
// One chunk of a product along k: SEGS segments of SEG steps each, unrolled, because lavapipe gives
// up uniform loads inside of a loop. Longer products are several launches that add into c (the one
// that starts at a_0 = 0 overwrites it); all sizes share few pipelines.
// Rows of a past m_last repeat row m_last; tiles of columns past b_last repeat the last columns.
// Grid: (row tiles of ROWS, column tiles of 2 * LANES, z).

#if SMALL_GRID
#define UNIFORM(id) lane_uniform_small(id)
#else
#define UNIFORM(id) lane_uniform(id)
#endif

void main() {
  const uint tm = UNIFORM(gl_WorkGroupID.x), tn = UNIFORM(gl_WorkGroupID.y);
  const uint z = UNIFORM(gl_WorkGroupID.z);

  tv_ref_f32 pa[ROWS];
  tv_ref_f32 pz = lane_at(a_ptr, z * a_z + a_0);
  [[unroll]] for (uint i = 0u; i < ROWS; i++) {
    pa[i] = lane_at(pz, min(tm * ROWS + i, m_last) * a_m);
  }
  tv_ref_f32 pb = lane_at(b_ptr, z * b_z + min(tn * b_tile, b_last));

  float acc[ROWS][2];
  [[unroll]] for (uint i = 0u; i < ROWS; i++) acc[i][0] = acc[i][1] = 0.0;
  const uint offsets[SEGS] = uint[SEGS](OFFSETS);
  LANE_UNROLL for (uint s = 0u; s < SEGS; s++) {
    float part[ROWS][2];  // of a segment: keeps the rounding error of long sums small
    [[unroll]] for (uint i = 0u; i < ROWS; i++) part[i][0] = part[i][1] = 0.0;
    LANE_UNROLL for (uint k4 = 0u; k4 < SEG / 4u; k4++) {
      vec4 a[ROWS];
      [[unroll]] for (uint i = 0u; i < ROWS; i++) a[i] = lane_vec4(pa[i], s * (SEG / 4u) + k4);
      [[unroll]] for (uint k = 0u; k < 4u; k++) {
        tv_ref_f32 p = lane_at(pb, offsets[s] + (4u * k4 + k) * b_k);
        const float b0 = lane_load(p), b1 = lane_load(lane_at(p, LANES));
        [[unroll]] for (uint i = 0u; i < ROWS; i++) {
          part[i][0] = fma(a[i][k], b0, part[i][0]);
          part[i][1] = fma(a[i][k], b1, part[i][1]);
        }
      }
    }
    [[unroll]] for (uint i = 0u; i < ROWS; i++) {
      acc[i][0] += part[i][0];
      acc[i][1] += part[i][1];
    }
  }
  [[unroll]] for (uint i = 0u; i < ROWS; i++) {
    tv_ref_f32 pc = lane_at(c_ptr, z * c_z + (tm * ROWS + i) * c_m + tn * (2u * LANES));
    const float x = lane_load(pc), y = lane_load(lane_at(pc, LANES));
    const bool first = a_0 == 0u;
    lane_store2(pc, acc[i][0] + mix(x, 0.0, first), acc[i][1] + mix(y, 0.0, first));
  }
}
