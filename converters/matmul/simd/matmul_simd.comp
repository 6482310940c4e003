// c[z][m][n] (+)= sum over s and k of a[z][m][a_0 + s * SEG + k] * b[z][b_s<s> + k * B_K + n].
//
// One chunk of a product along k: SEGS segments of SEG steps each, the last one of REST where that
// is not 0, unrolled, because lavapipe gives up uniform loads inside of a loop. Longer products are
// several launches that add into c (the one that starts at a_0 = 0 overwrites it); all sizes share
// few pipelines.
// INTEGER: a and b hold integers below 256 in magnitude, as floats. Those of a segment have exact
// sums, which are added up as integers: c holds their bits.
// LAST: the sums, with those of c where ADD, go through the fused epilogue to y[z][m][n], cols >= 2
// LANES wide, whose last tile of columns is moved back to end with the row.
// B_K: a constant where b is packed: its addresses are then constants beside that of a segment.
// A_COUNT: matrices of a, of which z takes one after the other, or 0 if there are as many as z.
// GROUPED: the matrix of b that a tile takes, and its rows, are those of its group
// (matmul_simd_rows.glsl); the rows of no group, `groups`, have zeros. z is then 0.
// Rows of a past m_last repeat row m_last; tiles of columns past b_last repeat the last columns.
// Grid: (row tiles of ROWS, column tiles of 2 * LANES, z).

#if GROUPED
#define OF_Z(z, stride) 0u
#else
#define ROW_LAST m_last
#define OF_Z(z, stride) ((z) * (stride))
#endif
#include "matmul_simd_rows.glsl"

#if SMALL_GRID
#define UNIFORM(id) simd_uniform_small(id)
#else
#define UNIFORM(id) simd_uniform(id)
#endif

#if INTEGER
#define SUM int
#define SUM_BITS(v) intBitsToFloat(v)
#define BITS_SUM(v) floatBitsToInt(v)
#else
#define SUM float
#define SUM_BITS(v) (v)
#define BITS_SUM(v) (v)
#endif

/// Where the rows of a tile begin in a.
void find_rows(uint tm, uint z, out tv_ref_f32 pa[ROWS]) {
#if A_COUNT
  tv_ref_f32 pz = simd_at(a_ptr, z % uint(A_COUNT) * a_z + A_0);
#else
  tv_ref_f32 pz = simd_at(a_ptr, OF_Z(z, a_z) + A_0);
#endif
  [[unroll]] for (uint i = 0u; i < ROWS; i++) {
    pa[i] = simd_at(pz, row_of(tm, i) * a_m);
  }
}

/// Adds the products of a segment, which get sums of their own: the rounding error of long sums
/// stays small.
void add_segment(tv_ref_f32 pa[ROWS], tv_ref_f32 pb, uint s, inout SUM acc[ROWS][2]) {
  float part[ROWS][2];
  [[unroll]] for (uint i = 0u; i < ROWS; i++) part[i][0] = part[i][1] = 0.0;
  SIMD_UNROLL for (uint k4 = 0u; k4 < SEG / 4u; k4++) {
    vec4 a[ROWS];
    [[unroll]] for (uint i = 0u; i < ROWS; i++) a[i] = simd_vec4(pa[i], s * (SEG / 4u) + k4);
    [[unroll]] for (uint k = 0u; k < 4u; k++) {
      tv_ref_f32 p = simd_at(pb, (4u * k4 + k) * B_K);
      const float b0 = simd_load(p), b1 = simd_load(simd_at(p, LANES));
      [[unroll]] for (uint i = 0u; i < ROWS; i++) {
        part[i][0] = fma(a[i][k], b0, part[i][0]);
        part[i][1] = fma(a[i][k], b1, part[i][1]);
      }
    }
  }
  [[unroll]] for (uint i = 0u; i < ROWS; i++) {
    acc[i][0] += SUM(part[i][0]);
    acc[i][1] += SUM(part[i][1]);
  }
}

#if REST
/// The last segment, in a loop of its own: one whose length depends on s stays a loop.
void add_rest(tv_ref_f32 pa[ROWS], tv_ref_f32 pb, inout SUM acc[ROWS][2]) {
  float rest[ROWS][2];
  [[unroll]] for (uint i = 0u; i < ROWS; i++) rest[i][0] = rest[i][1] = 0.0;
  [[unroll]] for (uint k = 0u; k < REST; k++) {
    const float b0 = simd_load(simd_at(pb, k * B_K)), b1 = simd_load(simd_at(pb, k * B_K + LANES));
    [[unroll]] for (uint i = 0u; i < ROWS; i++) {
      const float x = simd_scalar(pa[i], (SEGS - 1u) * SEG + k);
      rest[i][0] = fma(x, b0, rest[i][0]);
      rest[i][1] = fma(x, b1, rest[i][1]);
    }
  }
  [[unroll]] for (uint i = 0u; i < ROWS; i++) {
    acc[i][0] += SUM(rest[i][0]);
    acc[i][1] += SUM(rest[i][1]);
  }
}
#endif

#if ADD || !LAST
/// Row i of the tile in c.
tv_ref_f32 row_of_c(uint tm, uint tn, uint z, uint i) {
  return simd_at(c_ptr, OF_Z(z, C_Z) + (tm * ROWS + i) * C_M + tn * (2u * LANES));
}
#endif

#if ADD
/// Adds what the launches before this one have left in c.
void add_before(uint tm, uint tn, uint z, inout SUM acc[ROWS][2]) {
  [[unroll]] for (uint i = 0u; i < ROWS; i++) {
    tv_ref_f32 pc = row_of_c(tm, tn, z, i);
    acc[i][0] += mix(BITS_SUM(simd_load(pc)), SUM(0), A_0 == 0u);
    acc[i][1] += mix(BITS_SUM(simd_load(simd_at(pc, LANES))), SUM(0), A_0 == 0u);
  }
}
#endif

void clear_unless(bool kept, inout SUM acc[ROWS][2]) {
  [[unroll]] for (uint i = 0u; i < ROWS; i++) {
    acc[i][0] = mix(SUM(0), acc[i][0], kept);
    acc[i][1] = mix(SUM(0), acc[i][1], kept);
  }
}

simd_held store_row(uint tm, uint tn, uint z, uint i, SUM left, SUM right) {
#if LAST
  const uint row = OF_Z(z, m_last + 1u) + row_of(tm, i);
  const uint n = min(tn * (2u * LANES), cols - 2u * LANES);
  return y_simd_store2(row * cols + n, y_T(left), y_T(right));
#else
  return simd_store2(row_of_c(tm, tn, z, i), SUM_BITS(left), SUM_BITS(right));
#endif
}

void main() {
  const uint tm = UNIFORM(gl_WorkGroupID.x), tn = UNIFORM(gl_WorkGroupID.y);
#if GROUPED
  const uint z = 0u, group = find_tile(tm);
  tv_ref_f32 pb = simd_at(b_ptr, min(group, groups - 1u) * b_z + min(tn * b_tile, b_last));
#else
  const uint z = UNIFORM(gl_WorkGroupID.z);
  tv_ref_f32 pb = simd_at(b_ptr, z * b_z + min(tn * b_tile, b_last));
#endif
  tv_ref_f32 pa[ROWS];
  find_rows(tm, z, pa);

  SUM acc[ROWS][2];
  [[unroll]] for (uint i = 0u; i < ROWS; i++) acc[i][0] = acc[i][1] = SUM(0);
  const uint offsets[SEGS] = uint[SEGS](OFFSETS);
  SIMD_UNROLL for (uint s = 0u; s < SEGS - (REST != 0u ? 1u : 0u); s++) {
    add_segment(pa, simd_at(pb, offsets[s]), s, acc);
  }
#if REST
  add_rest(pa, simd_at(pb, offsets[SEGS - 1u]), acc);
#endif
  SIMD_WAIT  // loads below, in one block with those above, would become loads of elements
#if ADD
  add_before(tm, tn, z, acc);
#endif
#if GROUPED
  clear_unless(group < groups, acc);
#endif
  simd_held held[ROWS];
  [[unroll]] for (uint i = 0u; i < ROWS; i++) {
    held[i] = store_row(tm, tn, z, i, acc[i][0], acc[i][1]);
  }
  SIMD_WAIT
#if LAST
  [[unroll]] for (uint i = 0u; i < ROWS; i++) y_simd_release(held[i]);
#else
  [[unroll]] for (uint i = 0u; i < ROWS; i++) simd_release(held[i]);
#endif
}
