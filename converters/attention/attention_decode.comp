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

void main() {
  const uint group = tv_group();
  const uint split = group % SPLITS, block = group / SPLITS % BLOCKS, head = group / SPLITS / BLOCKS;
  if (head >= heads) return;
#if SHUFFLE
  const uint thread = gl_SubgroupID * gl_SubgroupSize + gl_SubgroupInvocationID;
#else
  const uint thread = gl_LocalInvocationID.x;
#endif
  const uint row0 = block * BM;
  heads_OFFSETS(head)

  for (uint e = thread; e < BM * D4; e += LOCAL_X) {
    const uint i = e / D4, row = row0 + i;
    const uint at = q_offset + row / QUERIES * q_g + row % QUERIES * q_m;
    vec4 q = vec4(0.0);
    if (row < ROWS) q = FOUR(q, Q4, at, (e - i * D4), D);
    q_tile[e] = q;
  }

  const float by = SCALE;
  const uint tx = thread % TX, own_key = thread / TX;
  const uint own_row = thread / LANES, lane = thread % LANES;
  const uint slice = thread / DV4, column = thread % DV4;
  float most = MINUS_INF, total = 0.0;
  vec4 o[BM];
  [[unroll]] for (uint i = 0u; i < BM; i++) o[i] = vec4(0.0);

#if PLACED
  // Ranges are of the keys that some query sees.
  const int first = FIRST_QUERY;
  const uint used = seen_end(first + int(QUERIES) - 1), from = seen_begin(first);
  const uint each = (used - min(from, used) + SPLITS - 1u) / SPLITS;
  const uint begin = min(from + split * each, used), end = min(begin + each, used);
#else
  const int first = 0;
  const uint each = (keys + SPLITS - 1u) / SPLITS;
  const uint begin = min(split * each, keys);
#if CAUSAL
  const uint end = min(min(begin + each, keys), uint(QUERIES));
#else
  const uint end = min(begin + each, keys);
#endif
#endif
  for (uint n0 = begin; n0 < end; n0 += BN) {
#if MASK
    if (thread == 0u) live = 0u;
    barrier();
    for (uint e = thread; e < BM * BN; e += LOCAL_X) {
      const uint row = row0 + e / BN, n = n0 + e % BN;
      if (row >= ROWS || n >= end) continue;
      const uint g = row / QUERIES, m = row % QUERIES;
      if (SEEN(mask_offset + g * mask_g + m * mask_m + n * mask_n)) live = 1u;
    }
    barrier();
    const bool skipped = live == 0u;
    barrier();
    if (skipped) continue;
#else
    barrier();
#endif

    [[unroll]] for (uint j = 0u; j < KEYS; j++) {
      const uint k = own_key + j * TK, n = n0 + k;
      if (BN % TK != 0u && k >= BN) break;
      float s[BM];
      [[unroll]] for (uint i = 0u; i < BM; i++) s[i] = 0.0;
      const uint at = k_offset + min(n, end - 1u) * k_n;
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
      [[unroll]] for (uint i = 0u; i < BM; i++) {
        if (i % TX != tx) continue;
        const uint row = row0 + i, m = row % QUERIES;
        bool seen = n < end && row < ROWS;
        precise float scaled = s[i] * by;
        float score = CAPPED(scaled);
#if CAUSAL
        seen = seen && SEES(first + int(m), n);
#endif
#if MASK
        const uint at = mask_offset + row / QUERIES * mask_g + m * mask_m + n * mask_n;
        if (seen) seen = SEEN(at);
#endif
#if MASK == 2
        if (seen) score += float(mask_raw(at));
#endif
        s_tile[i * BN + k] = seen ? score : MINUS_INF;
      }
    }
    barrier();

    if (own_row < BM) {
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
    barrier();

    if (slice < SLICES) {
      [[unroll]] for (uint i = 0u; i < BM; i++) o[i] *= row_shrink[i];
      [[unroll]] for (uint j = 0u; j < VALUES; j++) {
        const uint k = slice + j * SLICES, n = n0 + k;
        if (BN % SLICES != 0u && k >= BN) break;
        const uint at = v_offset + min(n, end - 1u) * v_n;
        const vec4 read = FOUR(v, V4, at, column, DV), v = n < end ? read : vec4(0.0);
        [[unroll]] for (uint i = 0u; i < BM; i++) o[i] = fma(vec4(s_tile[i * BN + k]), v, o[i]);
      }
    }
  }

  if (own_row < BM && lane == 0u) {
    row_most[own_row] = most;
    row_total[own_row] = total;
  }
  [[unroll]] for (uint i = 0u; i < BM; i++) {
    barrier();
    if (slice < SLICES) merge[thread] = o[i];
    barrier();
    const uint row = row0 + i;
    if (thread >= DV4 || row >= ROWS) continue;
    vec4 r = merge[thread];
    for (uint k = 1u; k < SLICES; k++) r += merge[k * DV4 + thread];
    const uint d = 4u * thread;
#if SPLITS > 1
    const uint to = (split * heads + head) * ROWS + row;
    [[unroll]] for (uint k = 0u; k < 4u; k++) {
      if (d + k < DV) part_raw_store(to * DV + d + k, r[k]);
    }
    if (thread == 0u) {
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
}
