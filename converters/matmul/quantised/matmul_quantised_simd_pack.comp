// y[z][t][w][c] = word w of row t * TILE + c of matrix z of x, zero past the rows and past their
// words: a quantised matrix, its scales or zero points as matmul_quantised_simd reads them.
//
// BYTES: a word is four bytes of a row of row_bytes, rows pitch bytes apart; else it is element w
// of a row, as a float, rows pitch elements apart. MOVED: the last tile is moved back to end with
// the rows.
// BATCHED: there are several matrices of `tiles` tiles, whose rows follow each other.
// Grid: one invocation for each word.

uint byte_at(uint offset) {
  uint64_t at = uint64_t(x_ptr) + uint64_t(offset);
#if TV_CHECK
  at = tv_check_ptr(at, 1u);
#endif
  return uint(tv_ref_u8(at).v[0]);
}

void main() {
  const uint i = tv_group() * LOCAL_X + gl_LocalInvocationID.x;
  if (i >= total) return;
#if BATCHED
  const uint c = i % TILE, w = i / TILE % words, tile = i / TILE / words;
  const uint z = tile / tiles, t = tile - z * tiles;
#else
  const uint c = i % TILE, w = i / TILE % words, t = i / TILE / words, z = 0u;
#endif
#if MOVED
  const uint row = min(t * TILE, rows - TILE) + c;
#else
  const uint row = t * TILE + c;
#endif
  uint word = 0u;
  if (row < rows) {
#if BYTES
    for (uint b = 0u; b < 4u; b++) {
      if (4u * w + b < row_bytes)
          word |= byte_at((z * rows + row) * pitch + 4u * w + b) << (8u * b);
    }
#else
    if (w < row_bytes) word = floatBitsToUint(float(x_raw((z * rows + row) * pitch + w)));
#endif
  }
  y_raw_store(i, int(word));
}
