// Compares blocks of a line with each other, in their places, on CPU drivers (sort_simd.glsl): a
// step of a bitonic merge of `span` blocks (Batcher 1968), of which a workgroup has two vectors in
// each of HELD, `apart` blocks from each other. MIRRORED: the first comparison is of a block's
// elements with those of the mirrored block, in the opposite order; the upper half's vectors are
// held so.
//
// `blocks` of a line in keys and at, `rows` lines, `spans` times `span` blocks of each.
// NETWORK(k, at): the comparisons. Flat grid, with VECTORS / 2 workgroups for each of `apart`
// blocks.

#include "sort_blocks_simd.glsl"

struct Place {
  uint row, first, r, c;  // line, first block of the span, block and vector that the workgroup has
};

Place place_of(uint g) {
  const uint c = g % (VECTORS / 2u), of_blocks = g / (VECTORS / 2u), rest = of_blocks / apart;
  const uint row = rest / spans;
  return Place(row, (rest - row * spans) * span, of_blocks - rest * apart, 2u * c);
}

bool is_mirrored(uint j) { return bool(MIRRORED) && j >= HELD / 2u; }

/// The block that the workgroup holds as its j-th.
uint block_of(Place p, uint j) {
  return p.first + j * apart + (is_mirrored(j) ? apart - 1u - p.r : p.r);
}

bool exists(Place p, uint j) { return both(p.row < rows, block_of(p, j) < blocks); }

/// Where its two vectors are.
uint vectors_at(Place p, uint j) {
  const uint block = mix(rows * blocks, p.row * blocks + block_of(p, j), exists(p, j));
  return block * BLOCK + (is_mirrored(j) ? VECTORS - 2u - p.c : p.c) * LANES;
}

void main() {
  const Place p = place_of(UNIFORM_GROUP(tv_group()));
  KEY k[2u * HELD];
  uint at[2u * HELD];
  [[unroll]] for (uint j = 0u; j < HELD; j++) {
    // Mirrored vectors change places, and their lanes do.
    const uint low = is_mirrored(j) ? 1u : 0u;
    load_pairs(vectors_at(p, j), exists(p, j), k[2u * j + low], at[2u * j + low]);
    load_pairs(vectors_at(p, j) + LANES, exists(p, j), k[2u * j + 1u - low],
               at[2u * j + 1u - low]);
    if (is_mirrored(j)) {
      reverse_lanes(k[2u * j], at[2u * j]);
      reverse_lanes(k[2u * j + 1u], at[2u * j + 1u]);
    }
  }
  NETWORK(k, at)
  Stored stored[HELD];
  [[unroll]] for (uint j = 0u; j < HELD; j++) {
    const uint low = is_mirrored(j) ? 1u : 0u;
    if (is_mirrored(j)) {
      reverse_lanes(k[2u * j], at[2u * j]);
      reverse_lanes(k[2u * j + 1u], at[2u * j + 1u]);
    }
    stored[j] = store_pairs(vectors_at(p, j), k[2u * j + low], at[2u * j + low],
                            k[2u * j + 1u - low], at[2u * j + 1u - low]);
  }
  SIMD_WAIT
  [[unroll]] for (uint j = 0u; j < HELD; j++) {
    const uint low = is_mirrored(j) ? 1u : 0u;
    release_pairs(stored[j], k[2u * j + low], k[2u * j + 1u - low]);
  }
}
