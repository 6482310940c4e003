// y = softmax(scale · q kᵀ + mask) · v for few queries: "split-K" of FlashAttention, i.e.
// Flash-Decoding (Dao et al., 2023), in fp32 throughout.
//
// A workgroup takes BM rows and one of SPLITS ranges of keys, and walks it BN keys at a time. Rows
// are the queries of the REPEAT heads that share keys, head by head, so that a key is read once for
// all of them. TX invocations share the product of a key; then LANES invocations have the scores of
// a row; then an invocation has four columns of the result and every SLICES-th key. Keys that a
// mask hides from all rows are not read; behind the last of a range the last is read again, so that
// no load waits for a condition. With SPLITS > 1 the sums of a range go to `part` and
// `sums` (largest score, Σ exp), and attention_decode_end.comp adds them up.
//
// With PLACED the ranges are of the keys that are seen, not of all. heads_OFFSETS gives the offsets
// of a group of heads. Other defines as in attention_flash.comp.
// What an invocation holds is main's, and handed to its parts: in variables of the file it took an
// H200 8 to 25 % longer.
// Grid: flat, (heads · ceil(ROWS / BM) · SPLITS).

const uint ROWS = REPEAT * QUERIES, BLOCKS = (ROWS + BM - 1u) / BM;
const uint D4 = (D + 3) / 4, DV4 = (DV + 3) / 4, TK = LOCAL_X / TX, SLICES = LOCAL_X / DV4;
const uint KEYS = (BN + TK - 1u) / TK, VALUES = (BN + SLICES - 1u) / SLICES;  // of an invocation

shared vec4 q_tile[BM * D4];
shared float s_tile[BM * BN];
shared vec4 merge[LOCAL_X];
shared float row_shrink[BM], row_most[BM], row_total[BM];
#if MASK
shared uint live;
#endif

#define MINUS_INF uintBitsToFloat(0xff800000u)

#if VECTOR
#define FOUR(name, X4, i, d4, size) X4(i + 4u * d4)
#else
#define PART(name, i, d, size) ((d) < (size) ? float(name##_raw(i + (d) * name##_d)) : 0.0)
#define FOUR(name, X4, i, d4, size)                                              \
  vec4(PART(name, i, 4u * d4, size), PART(name, i, 4u * d4 + 1u, size),          \
       PART(name, i, 4u * d4 + 2u, size), PART(name, i, 4u * d4 + 3u, size))
#endif

#if MASK == 1
#define SEEN(at) (mask_raw(at) != 0)
#elif MASK == 2
#define SEEN(at) (float(mask_raw(at)) != MINUS_INF)
#endif

#include "attention_places.glsl"

/// Rows from row0 on, those of the group of heads that begins at `from`.
void load_queries(uint thread, uint row0, uint from) {
  for (uint e = thread; e < BM * D4; e += LOCAL_X) {
    const uint i = e / D4, row = row0 + i;
    const uint at = from + row / QUERIES * q_g + row % QUERIES * q_m;
    vec4 q = vec4(0.0);
    if (row < ROWS) q = FOUR(q, Q4, at, (e - i * D4), D);
    q_tile[e] = q;
  }
}

/// Keys begin … end - 1 are a workgroup's; `first`: place of the first query.
struct Range {
  int first;
  uint begin, end;
};

Range range_of(uint split) {
#if PLACED
  // Ranges are of the keys that some query sees.
  const int first = FIRST_QUERY;
  const uint used = seen_end(first + int(QUERIES) - 1), from = seen_begin(first);
  const uint each = (used - min(from, used) + SPLITS - 1u) / SPLITS;
  const uint begin = min(from + split * each, used), end = min(begin + each, used);
#else
  const int first = 0;
  const uint each = (keys + SPLITS - 1u) / SPLITS, begin = min(split * each, keys);
#if CAUSAL
  const uint end = min(min(begin + each, keys), uint(QUERIES));
#else
  const uint end = min(begin + each, keys);
#endif
#endif
  return Range(first, begin, end);
}

#if MASK
/// Offset of a row and key in the mask of the heads that begins at `from`.
uint mask_place(uint from, uint row, uint n) {
  return from + row / QUERIES * mask_g + row % QUERIES * mask_m + n * mask_n;
}

/// Whether some row sees one of the BN keys from n0 on.
bool any_seen(uint thread, uint row0, uint n0, uint end, uint from) {
  if (thread == 0u) live = 0u;
  barrier();
  for (uint e = thread; e < BM * BN; e += LOCAL_X) {
    const uint row = row0 + e / BN, n = n0 + e % BN;
    if (row >= ROWS || n >= end) continue;
    if (SEEN(mask_place(from, row, n))) live = 1u;
  }
  barrier();
  return live != 0u;
}
#endif

/// The score of a row and key n from their product; of a key that the row does not see -infinity.
float score_of(uint row, uint n, float product, float by, Range range, uint mask_from) {
  bool seen = n < range.end && row < ROWS;
  precise float scaled = product * by;
  float score = CAPPED(scaled);
#if CAUSAL
  seen = seen && SEES(range.first + int(row % QUERIES), n);
#endif
#if MASK
  const uint at = mask_place(mask_from, row, n);
  if (seen) seen = SEEN(at);
#endif
#if MASK == 2
  if (seen) score += float(mask_raw(at));
#endif
  return seen ? score : MINUS_INF;
}

/// The invocation's part of the products of the rows with the key that begins at `at`, and the
/// others' parts.
void multiply_key(uint tx, uint at, out float s[BM]) {
  [[unroll]] for (uint i = 0u; i < BM; i++) s[i] = 0.0;
  [[unroll]] for (uint d4 = tx; d4 < D4; d4 += TX) {
    const vec4 x = FOUR(k, K4, at, d4, D);
    [[unroll]] for (uint i = 0u; i < BM; i++) {
      const vec4 q = q_tile[i * D4 + d4];
      s[i] = fma(q.x, x.x, fma(q.y, x.y, fma(q.z, x.z, fma(q.w, x.w, s[i]))));
    }
  }
#if SHUFFLE
  [[unroll]] for (uint i = 0u; i < BM; i++) {
    [[unroll]] for (uint b = TX / 2u; b > 0u; b >>= 1u) s[i] += subgroupShuffleXor(s[i], b);
  }
#endif
}

/// Scores of the keys from n0 on; heads' keys and mask begin at k_from and mask_from.
void find_scores(uint thread, uint row0, uint n0, float by, Range range, uint k_from,
                 uint mask_from) {
  const uint tx = thread % TX, own_key = thread / TX;
  [[unroll]] for (uint j = 0u; j < KEYS; j++) {
    const uint k = own_key + j * TK, n = n0 + k;
    if (BN % TK != 0u && k >= BN) break;
    float s[BM];
    multiply_key(tx, k_from + min(n, range.end - 1u) * k_n, s);
    [[unroll]] for (uint i = 0u; i < BM; i++) {
      if (i % TX != tx) continue;
      s_tile[i * BN + k] = score_of(row0 + i, n, s[i], by, range, mask_from);
    }
  }
}

/// The online softmax of the tile: its scores become powers, and row_shrink what brings the rows'
/// results so far to the largest score. `most`, `total`: largest score and Σ exp of the own row.
void softmax(uint own_row, uint lane, inout float most, inout float total) {
  if (own_row >= BM) return;
  float largest = MINUS_INF;
  for (uint k = lane; k < BN; k += LANES) largest = max(largest, s_tile[own_row * BN + k]);
#if SHUFFLE
  [[unroll]] for (uint b = LANES / 2u; b > 0u; b >>= 1u) {
    largest = max(largest, subgroupShuffleXor(largest, b));
  }
#endif
  largest = max(most, largest);
  const float shift = largest == MINUS_INF ? 0.0 : largest;
  const float shrink = tv_exp(most - shift);
  most = largest;
  float sum = 0.0;
  for (uint k = lane; k < BN; k += LANES) {
    const float p = tv_exp(s_tile[own_row * BN + k] - shift);
    sum += p;
    s_tile[own_row * BN + k] = p;
  }
#if SHUFFLE
  [[unroll]] for (uint b = LANES / 2u; b > 0u; b >>= 1u) sum += subgroupShuffleXor(sum, b);
#endif
  total = fma(total, shrink, sum);
  if (lane == 0u) row_shrink[own_row] = shrink;
}

/// Adds the products of the tile's powers and values; the heads' values begin at `from`.
void add_values(uint slice, uint column, uint n0, uint end, uint from, inout vec4 o[BM]) {
  if (slice >= SLICES) return;
  [[unroll]] for (uint i = 0u; i < BM; i++) o[i] *= row_shrink[i];
  [[unroll]] for (uint j = 0u; j < VALUES; j++) {
    const uint k = slice + j * SLICES, n = n0 + k;
    if (BN % SLICES != 0u && k >= BN) break;
    const uint at = from + min(n, end - 1u) * v_n;
    const vec4 read = FOUR(v, V4, at, column, DV), v = n < end ? read : vec4(0.0);
    [[unroll]] for (uint i = 0u; i < BM; i++) o[i] = fma(vec4(s_tile[i * BN + k]), v, o[i]);
  }
}

/// Four columns of row i of the tile, which is `row` of the heads, from d on.
void store(uint split, uint head, uint i, uint row, uint d, vec4 r) {
#if SPLITS > 1
  const uint to = (split * heads + head) * ROWS + row;
  [[unroll]] for (uint k = 0u; k < 4u; k++) {
    if (d + k < DV) part_raw_store(to * DV + d + k, r[k]);
  }
  if (d == 0u) {
    sums_raw_store(2u * to, row_most[i]);
    sums_raw_store(2u * to + 1u, row_total[i]);
  }
#else
  const uint to = head * ROWS + row;
  const float inverse = INVERSE(row_total[i]);
  r = RESULT(vec4, r, inverse);
#if DV % 4 == 0
  y_store4(to * DV + d, r);
#else
  [[unroll]] for (uint k = 0u; k < 4u; k++) {
    if (d + k < DV) y_store(to * DV + d + k, r[k]);
  }
#endif
#endif
}

/// Adds up what the slices of a row have, and stores it.
void merge_row(uint thread, uint split, uint head, uint i, uint row, vec4 o) {
  barrier();
  if (thread / DV4 < SLICES) merge[thread] = o;
  barrier();
  if (thread < DV4 && row < ROWS) {
    vec4 r = merge[thread];
    for (uint k = 1u; k < SLICES; k++) r += merge[k * DV4 + thread];
    store(split, head, i, row, 4u * thread, r);
  }
}

void main() {
  const uint group = tv_group(), split = group % SPLITS, head = group / SPLITS / BLOCKS;
  if (head >= heads) return;
#if SHUFFLE
  const uint thread = gl_SubgroupID * gl_SubgroupSize + gl_SubgroupInvocationID;
#else
  const uint thread = gl_LocalInvocationID.x;
#endif
  const uint row0 = group / SPLITS % BLOCKS * BM;
  const uint own_row = thread / LANES, lane = thread % LANES;
  heads_OFFSETS(head)
#if !MASK
  const uint mask_offset = 0u;
#endif
  load_queries(thread, row0, q_offset);
  const float by = SCALE;
  const Range range = range_of(split);
  float most = MINUS_INF, total = 0.0;
  vec4 o[BM];
  [[unroll]] for (uint i = 0u; i < BM; i++) o[i] = vec4(0.0);
  for (uint n0 = range.begin; n0 < range.end; n0 += BN) {
#if MASK
    const bool seen = any_seen(thread, row0, n0, range.end, mask_offset);
    barrier();
    if (!seen) continue;
#else
    barrier();
#endif
    find_scores(thread, row0, n0, by, range, k_offset, mask_offset);
    barrier();
    softmax(own_row, lane, most, total);
    barrier();
    add_values(thread / DV4, thread % DV4, n0, range.end, v_offset, o);
  }
  if (own_row < BM && lane == 0u) {
    row_most[own_row] = most;
    row_total[own_row] = total;
  }
  [[unroll]] for (uint i = 0u; i < BM; i++) merge_row(thread, split, head, i, row0 + i, o[i]);
}
