// dst = src for a src whose neighbours in memory are not dst's: tiles of SIDE x SIDE go through
// shared memory, so that both sides are touched in runs. Element (o, r, c) of dst is number
// outer_OFFSETS's dst_offset + r row + c of row-major order, and src's storage has it at src_offset
// + r + c column. Grid: flat, one workgroup of SIDE x LOCAL_Y a tile; local (SIDE, LOCAL_Y).

shared src_T tile_[SIDE][SIDE + 1];

void main() {
  const uint tiles_r = (rows + SIDE - 1u) / SIDE, tiles_c = (columns + SIDE - 1u) / SIDE;
  const uint group = tv_group(), place = group / tiles_c, outer = place / tiles_r;
  if (outer >= outers) return;
  const uint r0 = (place - outer * tiles_r) * SIDE, c0 = (group - place * tiles_c) * SIDE;
  const uint x = gl_LocalInvocationID.x, y = gl_LocalInvocationID.y;
  outer_OFFSETS(outer)
  [[unroll]] for (uint k = 0u; k < SIDE; k += LOCAL_Y) {
    const uint r = r0 + x, c = c0 + y + k;
    if (r < rows && c < columns) tile_[y + k][x] = src_raw(src_offset + r + c * column);
  }
  barrier();
  [[unroll]] for (uint k = 0u; k < SIDE; k += LOCAL_Y) {
    const uint r = r0 + y + k, c = c0 + x;
    if (r < rows && c < columns) dst_store(dst_offset + r * row + c, tile_[x][y + k]);
  }
}
