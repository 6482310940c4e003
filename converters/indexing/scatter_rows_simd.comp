// scatter_rows_sorted.comp on CPU drivers (simd.glsl), where the `count` elements of a row are
// neighbours in y and in the values, at least 2 LANES: y[o, row, k] of `outer` × `rows`, from
// v[o * outer_step + entry * value_step + k].
//
// A workgroup has a block of a row, PAIRS pairs of vectors, the last of which may move back to the
// row's end. The first AHEAD entries are added in straight-line code, whose loads are whole
// vectors; more of them in a loop. V_AT(i), X_AT(i): elements i … i + LANES - 1. ONE_BLOCK: rows
// have one. OUTER: there may be more than one o. UNIFORM_ENTRY, UNIFORM_GROUP: what makes them
// uniform. Flat grid; a workgroup past the end repeats the last block.

const uint WIDE = 2u * LANES, WIDTH = PAIRS * WIDE;

struct Block {
  uint row, from, to;  // where the values and y's elements begin
  uint column;
};

Block block_of(uint g) {
#if ONE_BLOCK
  const uint of_rows = g, column = 0u;
#else
  const uint of_rows = g / blocks, column = (g - of_rows * blocks) * WIDTH;
#endif
#if OUTER
  const uint o = of_rows / rows;
#else
  const uint o = 0u;
#endif
  return Block(of_rows - o * rows, o * outer_step, of_rows * count, column);
}

/// Of the order's places, and of entries.
uint uniform_entry(uint i) { return UNIFORM_ENTRY(i); }

uint column_of(Block block, uint q) { return min(block.column + q * WIDE, count - WIDE); }

y_T added(y_T sum, y_T v) {
#if ADD
  return sum + v;
#else
  return v;
#endif
}

/// The entry that stands at place p of the order.
uint entry_at(uint p) {
  const uint last = max(entries, 1u) - 1u;
  return min(uint(at_raw(min(p, last))), last);
}

void begin_sums(Block block, out y_T sum[PAIRS][2]) {
  [[unroll]] for (uint q = 0u; q < PAIRS; q++) {
    [[unroll]] for (uint h = 0u; h < 2u; h++) {
#if BASE
      sum[q][h] = y_T(X_AT(block.to + column_of(block, q) + h * LANES));
#else
      sum[q][h] = y_T(0);
#endif
    }
  }
}

void main() {
  const Block block = block_of(min(UNIFORM_GROUP(tv_group()), outer * rows * blocks - 1u));
  y_T sum[PAIRS][2];
  begin_sums(block, sum);
  const uint end = min(uint(start_raw(block.row + 1u)), entries);
#if ADD
  const uint begin = uniform_entry(uint(start_raw(block.row)));
#else
  const uint begin = uniform_entry(max(uint(start_raw(block.row)) + 1u, end) - 1u);
#endif
  [[unroll]] for (uint a = 0u; a < AHEAD; a++) {
    const uint from = block.from + uniform_entry(entry_at(begin + a)) * value_step;
    [[unroll]] for (uint q = 0u; q < PAIRS; q++) {
      [[unroll]] for (uint h = 0u; h < 2u; h++) {
        const y_T v = y_T(V_AT(from + column_of(block, q) + h * LANES));
        sum[q][h] = begin + a < end ? added(sum[q][h], v) : sum[q][h];
      }
    }
  }
#if ADD
  for (uint p = begin + AHEAD; p < end; ++p) {
    const uint from = block.from + entry_at(p) * value_step + gl_SubgroupInvocationID;
    [[unroll]] for (uint q = 0u; q < PAIRS; q++) {
      [[unroll]] for (uint h = 0u; h < 2u; h++) {
        sum[q][h] += y_T(v_raw(from + column_of(block, q) + h * LANES));
      }
    }
  }
#endif
  simd_held held[PAIRS];
  [[unroll]] for (uint q = 0u; q < PAIRS; q++) {
    held[q] = y_simd_store2(block.to + column_of(block, q), sum[q][0], sum[q][1]);
  }
  SIMD_WAIT
  [[unroll]] for (uint q = 0u; q < PAIRS; q++) y_simd_release(held[q]);
}
