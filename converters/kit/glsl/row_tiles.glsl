// Rows of results on CPU drivers (simd.glsl): a workgroup computes ROWS neighbouring rows of a
// plane in HALVES tiles of LANES columns.
//
// y: planes × lines × width_out. WHOLE: rows have 2 LANES elements or more, and the last tiles
// move back; else lanes past the end store nothing. Rows past the end are the last one again.
// Grid: (tiles · ceil(lines / ROWS), planes), flat where that may be large (FLAT). Defines and
// parameters: those of add_row_tiles (row_tiles.h).

struct RowTile {
  uint z, block, first;  // its plane, and its first row and column
};

/// n / d for places and planes. A division of integers is a loop over the lanes: numbers below 2^16
/// are small enough for floats.
uint tile_quotient(uint n, uint d) {
#if FLAT
  return n / d;
#else
  return uint((float(n) + 0.5) / float(d));
#endif
}

RowTile row_tile() {
#if FLAT
  const uint id = simd_uniform_large(tv_group()), z = id / places;
  const uint place = id - z * places;
#else
  const uint place = PLACE_OF(gl_WorkGroupID.x), z = PLANE_OF(gl_WorkGroupID.y);
#endif
  const uint block = tile_quotient(place, tiles);
  const uint column = (place - block * tiles) * (HALVES * LANES);
#if WHOLE
  return RowTile(z, block * ROWS, min(column, width_out - HALVES * LANES));
#else
  return RowTile(z, block * ROWS, column);
#endif
}

/// Row r of a tile, and the first column of half h.
uint row_of_tile(RowTile t, uint r) { return min(t.block + r, lines - 1u); }
uint column_of_tile(RowTile t, uint h) { return min(t.first + h * LANES, width_out - 1u); }
/// The lane's own.
uint lane_column(RowTile t, uint h) {
  return min(t.first + h * LANES + gl_SubgroupInvocationID, width_out - 1u);
}

void store_rows(RowTile t, float v[ROWS][HALVES]) {
#if WHOLE
  simd_held held[ROWS];
  [[unroll]] for (uint r = 0u; r < ROWS; r++) {
    const uint at = (t.z * lines + row_of_tile(t, r)) * width_out + t.first;
    held[r] = y_simd_store2(at, y_T(v[r][0]), y_T(v[r][1]));
  }
  SIMD_WAIT
  [[unroll]] for (uint r = 0u; r < ROWS; r++) y_simd_release(held[r]);
#else
  [[unroll]] for (uint r = 0u; r < ROWS; r++) {
    [[unroll]] for (uint h = 0u; h < HALVES; h++) {
      const uint row = t.block + r, column = t.first + h * LANES + gl_SubgroupInvocationID;
      if (row < lines && column < width_out) {
        y_store((t.z * lines + row) * width_out + column, y_T(v[r][h]));
      }
    }
  }
#endif
}
