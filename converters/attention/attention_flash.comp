// y = softmax(scale · q kᵀ + mask) · v with no score in memory: the online softmax of Dao et al.,
// "FlashAttention" (2022), in fp32 throughout.
//
// A workgroup takes BM queries of one head and walks its keys BN at a time. Invocation (ty, tx) has
// the queries ty + i TY, the keys tx + j TX of a tile, and the columns tx + c TX (of four values)
// of the result. A row whose every key is masked gives zeros. heads_OFFSETS gives the offsets of a
// head's q, k, v and mask. Defines: D, DV (head sizes), Q4, K4, V4 (element i … i + 3 of the
// storage by one access; else VECTOR is 0), CAUSAL, PLACED and WINDOW (attention_places.glsl), MASK
// (0 none, 1 bool, 2 added), LSE (whether log Σ exp is wanted), SHUFFLE (TX lanes of a subgroup hold
// a row). Grid: flat, (ceil(queries / BM) · heads).

const uint TY = LOCAL_X / TX, RM = BM / TY, RN = BN / TX;
const uint D4 = (D + 3) / 4, DV4 = (DV + 3) / 4, RD = (DV4 + TX - 1) / TX;
const uint QS = D4 + 1, VS = DV4 + 1, PS = BN / 4 + 1;  // odd strides keep banks apart

shared vec4 q_tile[BM * QS];
shared vec4 k_tile[BN * QS];
shared vec4 v_tile[BN * VS];
shared vec4 p_tile[BM * PS];
#if !SHUFFLE
shared float row_tile[BM * TX];
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

/// The largest of a row, whose scores TX invocations hold.
float row_max(float v, uint row, uint tx) {
#if SHUFFLE
  [[unroll]] for (uint m = TX / 2u; m > 0u; m >>= 1u) v = max(v, subgroupShuffleXor(v, m));
#else
  row_tile[row * TX + tx] = v;
  barrier();
  [[unroll]] for (uint t = 0u; t < TX; t++) v = max(v, row_tile[row * TX + t]);
  barrier();
#endif
  return v;
}

float row_sum(float v, uint row, uint tx) {
#if SHUFFLE
  [[unroll]] for (uint m = TX / 2u; m > 0u; m >>= 1u) v += subgroupShuffleXor(v, m);
#else
  row_tile[row * TX + tx] = v;
  barrier();
  v = 0.0;
  [[unroll]] for (uint t = 0u; t < TX; t++) v += row_tile[row * TX + t];
  barrier();
#endif
  return v;
}

#include "attention_places.glsl"

void main() {
  const uint tiles = (queries + BM - 1u) / BM, group = tv_group();
#if CAUSAL
  // The longest rows first, so that the last workgroups to run are short.
  const uint tile = tiles - 1u - group / heads, head = group % heads;
  if (group >= tiles * heads) return;
#else
  const uint head = group / tiles, tile = group - head * tiles;
  if (head >= heads) return;
#endif
  const uint m0 = tile * BM;
#if SHUFFLE
  const uint thread = gl_SubgroupID * gl_SubgroupSize + gl_SubgroupInvocationID;
#else
  const uint thread = gl_LocalInvocationID.x;
#endif
  const uint tx = thread % TX, ty = thread / TX;
  heads_OFFSETS(head)

  for (uint e = thread; e < BM * D4; e += LOCAL_X) {
    const uint m = e / D4, d4 = e - m * D4, at = q_offset + (m0 + m) * q_m;
    vec4 q = vec4(0.0);
    if (m0 + m < queries) q = FOUR(q, Q4, at, d4, D);
    q_tile[m * QS + d4] = q;
  }

  // Scores are scaled, not queries: the gradient, which computes them again as a product, then finds
  // the same numbers that went into the log of their sum.
  const float by = SCALE;
  vec4 o[RM][RD];
  float most[RM], total[RM];
  [[unroll]] for (uint i = 0u; i < RM; i++) {
    [[unroll]] for (uint c = 0u; c < RD; c++) o[i][c] = vec4(0.0);
    most[i] = MINUS_INF;
    total[i] = 0.0;
  }

#if CAUSAL
  const int first = FIRST_QUERY;
  const uint last = seen_end(first + int(m0 + BM) - 1);
  const uint begin = seen_begin(first + int(m0)) / BN * BN;
#else
  const uint last = keys, begin = 0u;
#endif
  for (uint n0 = begin; n0 < last; n0 += BN) {
    for (uint e = thread; e < BN * D4; e += LOCAL_X) {
      const uint n = e / D4, d4 = e - n * D4, at = k_offset + (n0 + n) * k_n;
      vec4 k = vec4(0.0);
      if (n0 + n < keys) k = FOUR(k, K4, at, d4, D);
      k_tile[n * QS + d4] = k;
    }
    for (uint e = thread; e < BN * DV4; e += LOCAL_X) {
      const uint n = e / DV4, d4 = e - n * DV4, at = v_offset + (n0 + n) * v_n;
      vec4 v = vec4(0.0);
      if (n0 + n < keys) v = FOUR(v, V4, at, d4, DV);
      v_tile[n * VS + d4] = v;
    }
    barrier();

    float s[RM][RN];
    [[unroll]] for (uint i = 0u; i < RM; i++) {
      [[unroll]] for (uint j = 0u; j < RN; j++) s[i][j] = 0.0;
    }
    for (uint d4 = 0u; d4 < D4; d4++) {
      vec4 k[RN];
      [[unroll]] for (uint j = 0u; j < RN; j++) k[j] = k_tile[(tx + j * TX) * QS + d4];
      [[unroll]] for (uint i = 0u; i < RM; i++) {
        const vec4 q = q_tile[(ty + i * TY) * QS + d4];
        [[unroll]] for (uint j = 0u; j < RN; j++) {
          s[i][j] = fma(q.x, k[j].x, s[i][j]);
          s[i][j] = fma(q.y, k[j].y, s[i][j]);
          s[i][j] = fma(q.z, k[j].z, s[i][j]);
          s[i][j] = fma(q.w, k[j].w, s[i][j]);
        }
      }
    }

    [[unroll]] for (uint i = 0u; i < RM; i++) {
      const uint row = ty + i * TY, m = m0 + row;
      float largest = MINUS_INF;
      [[unroll]] for (uint j = 0u; j < RN; j++) {
        const uint n = n0 + tx + j * TX;
        bool seen = n < keys && m < queries;
        precise float score = s[i][j] * by;  // rounded before what follows
        s[i][j] = CAPPED(score);
#if CAUSAL
        seen = seen && SEES(first + int(m), n);
#endif
#if MASK == 1
        if (seen) seen = mask_raw(mask_offset + m * mask_m + n * mask_n) != 0;
#elif MASK == 2
        if (seen) s[i][j] += float(mask_raw(mask_offset + m * mask_m + n * mask_n));
#endif
        s[i][j] = seen ? s[i][j] : MINUS_INF;
        largest = max(largest, s[i][j]);
      }
      largest = max(most[i], row_max(largest, row, tx));
      const float shift = largest == MINUS_INF ? 0.0 : largest;
      const float shrink = tv_exp(most[i] - shift);
      most[i] = largest;
      float sum = 0.0;
      [[unroll]] for (uint j = 0u; j < RN; j++) {
        const float p = tv_exp(s[i][j] - shift);
        sum += p;
        const uint n = tx + j * TX;
        p_tile[row * PS + n / 4u][n % 4u] = p;
      }
      total[i] = fma(total[i], shrink, sum);
      [[unroll]] for (uint c = 0u; c < RD; c++) o[i][c] *= shrink;
    }
    barrier();

    for (uint n4 = 0u; n4 < BN / 4u; n4++) {
      vec4 p[RM];
      [[unroll]] for (uint i = 0u; i < RM; i++) p[i] = p_tile[(ty + i * TY) * PS + n4];
      [[unroll]] for (uint k = 0u; k < 4u; k++) {
        [[unroll]] for (uint c = 0u; c < RD; c++) {
          const uint column = min(tx + c * TX, DV4 - 1u);
          const vec4 v = v_tile[(4u * n4 + k) * VS + column];
          [[unroll]] for (uint i = 0u; i < RM; i++) o[i][c] = fma(vec4(p[i][k]), v, o[i][c]);
        }
      }
    }
    barrier();
  }

  [[unroll]] for (uint i = 0u; i < RM; i++) {
    const uint row = ty + i * TY, m = m0 + row;
    const float sum = row_sum(total[i], row, tx);
    const float inverse = INVERSE(sum);
    if (m < queries) {
      const uint at = (head * queries + m) * DV;
      [[unroll]] for (uint c = 0u; c < RD; c++) {
        const uint d = 4u * (tx + c * TX);
        const vec4 r = RESULT(vec4, o[i][c], inverse);
#if DV % 4 == 0
        if (d < DV) y_store4(at + d, r);
#else
        [[unroll]] for (uint k = 0u; k < 4u; k++) {
          if (d + k < DV) y_store(at + d + k, r[k]);
        }
#endif
      }
#if LSE
      if (tx == 0u) lse_store(head * queries + m, most[i] + tv_log(sum));
#endif
    }
  }
}
