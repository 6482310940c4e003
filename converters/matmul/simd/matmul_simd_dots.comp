// c[z][m][n] (+)= sum over k of a[z][m][k_0 + k] * b[z][n][k_0 + k], for few rows and a b that is
// computed: b is read where it lies, not packed. Lanes are steps of k, COUNT of them, a constant >=
// LANES; the lanes' sums of LANES columns are added up while they are transposed.
//
// LAST: the sums go through the fused epilogue to y[z][m][n], cols >= 2 LANES wide, whose last tile
// of columns is moved back to end with the row; else to c, where columns past the last repeat it.
// ADD: to what is there.
// Rows past m_last repeat row m_last. Grid: (row tiles of ROWS, column tiles of 2 * LANES, z).

#if SMALL_GRID
#define UNIFORM(id) simd_uniform_small(id)
#else
#define UNIFORM(id) simd_uniform(id)
#endif

const uint VECTORS = (COUNT + LANES - 1u) / LANES;

/// Lanes without bit s get the sum of a over the lanes that differ in s alone, the others that of
/// b. Each s is written out: a shuffle by a constant is one instruction.
#define FOLD(a, b, s) (mix(a, b, HAS(s)) + subgroupShuffleXor(mix(b, a, HAS(s)), s))
#define HAS(s) ((gl_SubgroupInvocationID & s) != 0u)

/// Vector j of a row, of which the last one moves back to the row's end.
float vector_at(tv_ref_f32 p, uint j) {
  const float v = simd_load(simd_at(p, min(j * LANES, COUNT - LANES)));
  const uint repeated = j + 1u == VECTORS ? VECTORS * LANES - COUNT : 0u;
  return repeated == 0u ? v : mix(0.0, v, gl_SubgroupInvocationID >= repeated);
}

uint column_of(uint tn, uint c) {
#if LAST
  return min(tn * (2u * LANES), cols - 2u * LANES) + c;
#else
  return min(tn * (2u * LANES) + c, cols - 1u);
#endif
}

void load_rows(uint tm, uint z, out float a[ROWS][VECTORS]) {
  [[unroll]] for (uint i = 0u; i < ROWS; i++) {
    tv_ref_f32 p = simd_at(a_ptr, K_0 + z * a_z + min(tm * ROWS + i, m_last) * a_m);
    [[unroll]] for (uint j = 0u; j < VECTORS; j++) a[i][j] = vector_at(p, j);
  }
}

/// Sums of the columns c to c + 3, of which lane l has that of column c + l % 4: over the lanes
/// that are l % 4 apart from a multiple of 4.
void multiply(uint tn, uint c, tv_ref_f32 pb, float a[ROWS][VECTORS], out float sums[ROWS]) {
  float v[ROWS][4];
  [[unroll]] for (uint x = 0u; x < 4u; x++) {
    tv_ref_f32 p = simd_at(pb, column_of(tn, c + x) * b_n);
    [[unroll]] for (uint i = 0u; i < ROWS; i++) v[i][x] = 0.0;
    [[unroll]] for (uint j = 0u; j < VECTORS; j++) {
      const float b = vector_at(p, j);
      [[unroll]] for (uint i = 0u; i < ROWS; i++) v[i][x] = fma(a[i][j], b, v[i][x]);
    }
  }
  [[unroll]] for (uint i = 0u; i < ROWS; i++) {
    sums[i] = FOLD(FOLD(v[i][0], v[i][1], 1u), FOLD(v[i][2], v[i][3], 1u), 2u);
  }
}

/// Of LANES columns from c on, of which lane l has column c + l.
void multiply_lanes(uint tn, uint c, tv_ref_f32 pb, float a[ROWS][VECTORS], out float sums[ROWS]) {
  float part[4][ROWS];
  SIMD_UNROLL for (uint g = 0u; g < LANES / 4u; g++) multiply(tn, c + 4u * g, pb, a, part[g]);
  [[unroll]] for (uint i = 0u; i < ROWS; i++) {
    sums[i] = FOLD(part[0][i], part[1][i], 4u);
    if (LANES > 8u) sums[i] = FOLD(sums[i], FOLD(part[2][i], part[3][i], 4u), 8u);
  }
}

simd_held store_row(uint tm, uint tn, uint z, uint i, float left, float right) {
#if LAST
  const uint row = z * (m_last + 1u) + min(tm * ROWS + i, m_last);
  return y_simd_store2(row * cols + column_of(tn, 0u), y_T(left), y_T(right));
#else
  tv_ref_f32 p = simd_at(c_ptr, z * c_z + (tm * ROWS + i) * c_m + tn * (2u * LANES));
#if ADD
  left += simd_load(p);
  right += simd_load(simd_at(p, LANES));
#endif
  return simd_store2(p, left, right);
#endif
}

void main() {
  const uint tm = UNIFORM(gl_WorkGroupID.x), tn = UNIFORM(gl_WorkGroupID.y);
  const uint z = UNIFORM(gl_WorkGroupID.z);
  float a[ROWS][VECTORS], left[ROWS], right[ROWS];
  load_rows(tm, z, a);
  tv_ref_f32 pb = simd_at(b_ptr, K_0 + z * b_z);
  multiply_lanes(tn, 0u, pb, a, left);
  multiply_lanes(tn, LANES, pb, a, right);
  SIMD_WAIT  // as in matmul_simd
  simd_held held[ROWS];
  [[unroll]] for (uint i = 0u; i < ROWS; i++) {
    held[i] = store_row(tm, tn, z, i, left[i], right[i]);
  }
  SIMD_WAIT
#if LAST
  [[unroll]] for (uint i = 0u; i < ROWS; i++) y_simd_release(held[i]);
#else
  [[unroll]] for (uint i = 0u; i < ROWS; i++) simd_release(held[i]);
#endif
}
