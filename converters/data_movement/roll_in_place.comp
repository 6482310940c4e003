// y[…, p, …] = y[…, p + shift, …] in y's own memory, positions modulo `size`.
//
// `lines_OFFSETS` gives for a line, one place of the other dimensions, its offset in y. A workgroup
// moves LOCAL_X lines, TILE positions at a time: nothing that a tile writes is read behind it. What
// comes to lie at the end is kept from the first tile, so shift ≤ TILE. With MIRRORED, positions
// count from the end.

#define TILE (LOCAL_Y * PER)

/// Position p of the line whose offset is `from`.
uint place(uint from, uint p) { return from + (MIRRORED != 0 ? size - 1u - p : p) * y_step; }

void main() {
  const uint line = tv_group() * LOCAL_X + gl_LocalInvocationID.x;
  const uint row = gl_LocalInvocationID.y;
  const uint positions = line < lines ? size : 0u;
  lines_OFFSETS(line)
  y_T tile[PER], first[PER];
  for (uint begin = 0u; begin < size; begin += TILE) {
    [[unroll]] for (uint k = 0u; k < PER; k++) {
      const uint p = begin + k * LOCAL_Y + row;
      if (p < positions) tile[k] = y_raw(place(y_offset, p));
      if (begin == 0u) first[k] = tile[k];
    }
#if LOCAL_Y > 1
    memoryBarrierBuffer();
    barrier();
#endif
    [[unroll]] for (uint k = 0u; k < PER; k++) {
      const uint p = begin + k * LOCAL_Y + row;
      if (p < positions && p >= shift) y_raw_store(place(y_offset, p - shift), tile[k]);
    }
  }
  [[unroll]] for (uint k = 0u; k < PER; k++) {
    const uint p = k * LOCAL_Y + row;
    if (p < positions && p < shift) y_raw_store(place(y_offset, p + size - shift), first[k]);
  }
}
