// Which rows a tile of ROWS has. GROUPED: `plan` says so (matmul_grouped_plan.comp), and of which
// group they are; else tile tm begins at row tm * ROWS, and rows behind the last one repeat it.

#if GROUPED

uint tile_first, tile_last;

/// Sets the rows of tile tm, and returns their group.
uint find_tile(uint tm) {
  tile_first = PLAN_UNIFORM(uint(plan_raw(3u * tm + 1u)));
  tile_last = tile_first + simd_uniform_small(uint(plan_raw(3u * tm + 2u)));
  return PLAN_UNIFORM(uint(plan_raw(3u * tm)));
}

uint row_of(uint tm, uint i) { return min(tile_first + i, tile_last); }

#else

uint row_of(uint tm, uint i) { return min(tm * ROWS + i, ROW_LAST); }

#endif
