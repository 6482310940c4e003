// y[o, j, k] = x[o, index[o, j], k] on CPU drivers (simd.glsl), for the `count` neighbours k of a
// row, at least 2 LANES, of each of `entries` j.
//
// A workgroup moves a block of PAIRS pairs of vectors, the last of which may move back to the row's
// end, of ROWS rows. WRAPS: negative indices count from the end. PLACE: the index as a place in 0 …
// size - 1. X_AT(i): elements i … i + LANES - 1 of x. ONE_BLOCK: rows have one block. OUTER: there
// may be more than one o. UNIFORM_PLACE, UNIFORM_GROUP: what makes them uniform. Flat grid.

const uint WIDE = 2u * LANES, WIDTH = PAIRS * WIDE;

/// What the workgroup moves: block b of the rows from `first` on.
struct Part {
  uint b, first, o;
};

Part part_of(uint group) {
#if ONE_BLOCK
  const uint b = 0u, of_rows = group;
#else
  const uint of_rows = group / blocks, b = group - of_rows * blocks;
#endif
#if OUTER
  const uint o = min(of_rows / groups, outer - 1u);
#else
  const uint o = 0u;
#endif
  return Part(b, (of_rows - o * groups) * ROWS, o);
}

/// The place that entry j of o names.
uint place_of(uint o, uint j) {
  const int64_t v = int64_t(index_raw(o * index_outer + j * index_step));
  const int64_t front = bool(WRAPS) && v < int64_t(0) ? v + int64_t(size) : v;
  return UNIFORM_PLACE(PLACE(front, size));
}

uint column_of(uint b, uint q) { return min(b * WIDTH + q * WIDE, count - WIDE); }

void main() {
  const Part part = part_of(UNIFORM_GROUP(tv_group()));
  x_T v[ROWS][PAIRS][2];
  [[unroll]] for (uint r = 0u; r < ROWS; r++) {
    const uint row = part.o * size + place_of(part.o, min(part.first + r, entries - 1u));
    [[unroll]] for (uint q = 0u; q < PAIRS; q++) {
      [[unroll]] for (uint h = 0u; h < 2u; h++) {
        v[r][q][h] = X_AT(row * count + column_of(part.b, q) + h * LANES);
      }
    }
  }
  simd_held held[ROWS][PAIRS];
  [[unroll]] for (uint r = 0u; r < ROWS; r++) {
    const uint row = part.o * entries + min(part.first + r, entries - 1u);
    [[unroll]] for (uint q = 0u; q < PAIRS; q++) {
      const uint to = row * count + column_of(part.b, q);
      held[r][q] = y_simd_store2(to, y_T(v[r][q][0]), y_T(v[r][q][1]));
    }
  }
  SIMD_WAIT
  [[unroll]] for (uint r = 0u; r < ROWS; r++) {
    [[unroll]] for (uint q = 0u; q < PAIRS; q++) y_simd_release(held[r][q]);
  }
}
