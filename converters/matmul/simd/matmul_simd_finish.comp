// y[z][m][n] = c[z * c_z + m * c_m + column(n)] + bias[z % groups][m]: the sums of matmul_simd
// through the fused epilogue.
//
// MOVED: the last tile of columns repeats some of its neighbour's. PITCHED: n counts the pixels of
// an image `width` wide whose rows lie width + gap apart among the sums; with DEPTH the images of a
// volume, of `height` rows each, lie another depth_gap apart.
// IMAGE_ROWS: how many rows of an image a vector may have, where that is known and few, else 0.
// SMALL_COLUMNS: cols < 2^21.
// WIDE: cols >= 2 * LANES, so that a window of columns that would pass the end is moved back to it.
// Rows past the end repeat the last one. GROUPED: the rows of a tile are those of a group, and each
// tile's sums have ROWS rows (matmul_simd_rows.glsl). INTEGER: c holds the bits of integers,
// without a bias.
// Grid: (row tiles of ROWS, column tiles of 2 * LANES, z).

#if SMALL_GRID
#define UNIFORM(id) simd_uniform_small(id)
#else
#define UNIFORM(id) simd_uniform(id)
#endif

#if GROUPED
#define ROW_OF_C(tm, i) ((tm) * ROWS + (i))
#else
#define ROW_LAST (rows - 1u)
#define ROW_OF_C(tm, i) row_of(tm, i)
#endif
#include "matmul_simd_rows.glsl"

uint quotient(uint n, uint d) {
#if SMALL_COLUMNS  // a division of integers is a loop over the lanes
  return uint((float(n) + 0.5) / float(d));
#else
  return n / d;
#endif
}

uint column_of(uint n) {
#if PITCHED
  const uint row = quotient(n, width);
#ifdef DEPTH
  return n + row * gap + quotient(row, height) * depth_gap;
#else
  return n + row * gap;
#endif
#else
  return n;
#endif
}

#if IMAGE_ROWS
/// The sums of outputs n … n + LANES - 1, which are those of up to IMAGE_ROWS rows of the image:
/// each of these would be neighbours of others if all of the vector were of its row.
float rows_of_image(uint in_row, uint n) {
  const uint first = quotient(n, width), last = quotient(cols, width) - 1u;
  const uint own = quotient(n + gl_SubgroupInvocationID, width) - first;
  float v = 0.0;
  [[unroll]] for (uint j = 0u; j < IMAGE_ROWS; j++) {
    const uint at = in_row + n + min(first + j, last) * gap;
    v = mix(v, simd_load(simd_at(c_ptr, at)), own == j);
  }
  return v;
}
#endif

#if INTEGER
#define SUM_OF(c, add) floatBitsToInt(c)
#else
#define SUM_OF(c, add) ((c) + (add))
#endif

void main() {
  const uint tm = UNIFORM(gl_WorkGroupID.x), tn = UNIFORM(gl_WorkGroupID.y);
  const uint z = UNIFORM(gl_WorkGroupID.z), lane = gl_SubgroupInvocationID;
#if GROUPED
  find_tile(tm);
#endif
#if WIDE
  const uint n = min(tn * (2u * LANES), cols - 2u * LANES);
#else
  const uint n = tn * (2u * LANES) + lane, right = n + LANES;
#endif
#if WIDE
  simd_held held[ROWS];
#endif
  [[unroll]] for (uint i = 0u; i < ROWS; i++) {
    const uint m = row_of(tm, i);
    float add = 0.0;
#if BIAS
    add = float(bias_raw((z - z / groups * groups) * rows + m));
#endif
    const uint in_row = z * c_z + ROW_OF_C(tm, i) * c_m, out_row = (z * rows + m) * cols;
#if !WIDE
    if (n < cols) y_store(out_row + n, y_T(SUM_OF(c_raw(in_row + column_of(n)), add)));
    if (right < cols) y_store(out_row + right, y_T(SUM_OF(c_raw(in_row + column_of(right)), add)));
#elif IMAGE_ROWS
    held[i] = y_simd_store2(out_row + n, y_T(SUM_OF(rows_of_image(in_row, n), add)),
                            y_T(SUM_OF(rows_of_image(in_row, n + LANES), add)));
#elif PITCHED
    held[i] = y_simd_store2(out_row + n, y_T(SUM_OF(c_raw(in_row + column_of(n + lane)), add)),
                            y_T(SUM_OF(c_raw(in_row + column_of(n + lane + LANES)), add)));
#else
    tv_ref_f32 p = simd_at(c_ptr, in_row + (MOVED != 0 ? tn * (2u * LANES) : n));
    held[i] = y_simd_store2(out_row + n, y_T(SUM_OF(simd_load(p), add)),
                            y_T(SUM_OF(simd_load(simd_at(p, LANES)), add)));
#endif
  }
#if WIDE
  SIMD_WAIT
  [[unroll]] for (uint i = 0u; i < ROWS; i++) y_simd_release(held[i]);
#endif
}
