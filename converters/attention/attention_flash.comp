// y = softmax(scale · q kᵀ + mask) · v with no score in memory: the online softmax of Dao et al.,
// "FlashAttention" (2022), in fp32 throughout.
//
// A workgroup takes BM queries of one head and walks its keys BN at a time. Invocation (ty, tx) has
// the queries ty + i TY, the keys tx + j TX of a tile, and the columns tx + c TX (of four values)
// of the result. A row whose every key is masked gives zeros. heads_OFFSETS gives the offsets of a
// head's q, k, v and mask. Defines: D, DV (head sizes), Q4, K4, V4 (element i … i + 3 of the
// storage by one access; else VECTOR is 0), CAUSAL, PLACED and WINDOW (attention_places.glsl), MASK
// (0 none, 1 bool, 2 added), LSE (whether log Σ exp is wanted), SHUFFLE (TX lanes of a subgroup
// hold a row). Grid: flat, (ceil(queries / BM) · heads).

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

// Where an invocation is: queries m0 + ty + i TY of head `head`; of these it has the keys tx + j TX
// of a tile and the columns tx + c TX of the result.
uint thread, tx, ty, m0, head;
int first;            // place of the first query
uint begin, last;     // keys that a query sees
uint q_from, k_from, v_from, mask_from;  // where the head's begin
// Scores are scaled by it, not queries: the gradient, which computes them again as a product, then
// finds the same numbers that went into the log of their sum.
float by;
vec4 o[RM][RD];              // its results so far,
float most[RM], total[RM];   // and the largest score and the sum of the powers of each row
float s[RM][RN];             // scores of a tile

#define EACH_ROW [[unroll]] for (uint i = 0u; i < RM; i++)
#define EACH_KEY [[unroll]] for (uint j = 0u; j < RN; j++)
#define EACH_COLUMN [[unroll]] for (uint c = 0u; c < RD; c++)

/// Whether there is anything to do.
bool find_place() {
  const uint tiles = (queries + BM - 1u) / BM, group = tv_group();
#if CAUSAL
  // The longest rows first, so that the last workgroups to run are short.
  m0 = (tiles - 1u - group / heads) * BM;
  head = group % heads;
  const bool exists = group < tiles * heads;
#else
  head = group / tiles;
  m0 = (group - head * tiles) * BM;
  const bool exists = head < heads;
#endif
#if SHUFFLE
  thread = gl_SubgroupID * gl_SubgroupSize + gl_SubgroupInvocationID;
#else
  thread = gl_LocalInvocationID.x;
#endif
  tx = thread % TX;
  ty = thread / TX;
  return exists;
}

void find_operands() {
  heads_OFFSETS(head)
  q_from = q_offset;
  k_from = k_offset;
  v_from = v_offset;
#if MASK
  mask_from = mask_offset;
#endif
  by = SCALE;
}

void find_keys() {
#if CAUSAL
  first = FIRST_QUERY;
  last = seen_end(first + int(m0 + BM) - 1);
  begin = seen_begin(first + int(m0)) / BN * BN;
#else
  last = keys;
  begin = 0u;
#endif
}

void load_queries() {
  for (uint e = thread; e < BM * D4; e += LOCAL_X) {
    const uint m = e / D4, d4 = e - m * D4, at = q_from + (m0 + m) * q_m;
    vec4 q = vec4(0.0);
    if (m0 + m < queries) q = FOUR(q, Q4, at, d4, D);
    q_tile[m * QS + d4] = q;
  }
}

void load_keys(uint n0) {
  for (uint e = thread; e < BN * D4; e += LOCAL_X) {
    const uint n = e / D4, d4 = e - n * D4, at = k_from + (n0 + n) * k_n;
    vec4 k = vec4(0.0);
    if (n0 + n < keys) k = FOUR(k, K4, at, d4, D);
    k_tile[n * QS + d4] = k;
  }
}

void load_values(uint n0) {
  for (uint e = thread; e < BN * DV4; e += LOCAL_X) {
    const uint n = e / DV4, d4 = e - n * DV4, at = v_from + (n0 + n) * v_n;
    vec4 v = vec4(0.0);
    if (n0 + n < keys) v = FOUR(v, V4, at, d4, DV);
    v_tile[n * VS + d4] = v;
  }
}

void multiply_keys() {
  EACH_ROW EACH_KEY s[i][j] = 0.0;
  for (uint d4 = 0u; d4 < D4; d4++) {
    vec4 k[RN];
    EACH_KEY k[j] = k_tile[(tx + j * TX) * QS + d4];
    EACH_ROW {
      const vec4 q = q_tile[(ty + i * TY) * QS + d4];
      EACH_KEY {
        s[i][j] = fma(q.x, k[j].x, s[i][j]);
        s[i][j] = fma(q.y, k[j].y, s[i][j]);
        s[i][j] = fma(q.z, k[j].z, s[i][j]);
        s[i][j] = fma(q.w, k[j].w, s[i][j]);
      }
    }
  }
}

/// The score of query m and key n from their product; of a key that the query does not see
/// -infinity.
float score_of(uint m, uint n, float product) {
  bool seen = n < keys && m < queries;
  precise float scaled = product * by;  // rounded before what follows
  float score = CAPPED(scaled);
#if CAUSAL
  seen = seen && SEES(first + int(m), n);
#endif
#if MASK == 1
  if (seen) seen = mask_raw(mask_from + m * mask_m + n * mask_n) != 0;
#elif MASK == 2
  if (seen) score += float(mask_raw(mask_from + m * mask_m + n * mask_n));
#endif
  return seen ? score : MINUS_INF;
}

/// The online softmax of the tile at n0: powers of its scores go to p_tile, and what the invocation
/// has so far is brought to the largest score.
void softmax(uint n0) {
  EACH_ROW {
    const uint row = ty + i * TY;
    float largest = MINUS_INF;
    EACH_KEY {
      s[i][j] = score_of(m0 + row, n0 + tx + j * TX, s[i][j]);
      largest = max(largest, s[i][j]);
    }
    largest = max(most[i], row_max(largest, row, tx));
    const float shift = largest == MINUS_INF ? 0.0 : largest;
    const float shrink = tv_exp(most[i] - shift);
    most[i] = largest;
    float sum = 0.0;
    EACH_KEY {
      const float p = tv_exp(s[i][j] - shift);
      sum += p;
      const uint n = tx + j * TX;
      p_tile[row * PS + n / 4u][n % 4u] = p;
    }
    total[i] = fma(total[i], shrink, sum);
    EACH_COLUMN o[i][c] *= shrink;
  }
}

void add_values() {
  for (uint n4 = 0u; n4 < BN / 4u; n4++) {
    vec4 p[RM];
    EACH_ROW p[i] = p_tile[(ty + i * TY) * PS + n4];
    [[unroll]] for (uint k = 0u; k < 4u; k++) {
      EACH_COLUMN {
        const uint column = min(tx + c * TX, DV4 - 1u);
        const vec4 v = v_tile[(4u * n4 + k) * VS + column];
        EACH_ROW o[i][c] = fma(vec4(p[i][k]), v, o[i][c]);
      }
    }
  }
}

/// Elements 4 d4 … of a row of results that begins at `at`.
void store_four(uint at, uint d4, vec4 r) {
  const uint d = 4u * d4;
#if DV % 4 == 0
  if (d < DV) y_store4(at + d, r);
#else
  [[unroll]] for (uint k = 0u; k < 4u; k++) {
    if (d + k < DV) y_store(at + d + k, r[k]);
  }
#endif
}

void store() {
  EACH_ROW {
    const uint row = ty + i * TY, m = m0 + row;
    const float sum = row_sum(total[i], row, tx);
    const float inverse = INVERSE(sum);
    if (m < queries) {
      EACH_COLUMN store_four((head * queries + m) * DV, tx + c * TX,
          RESULT(vec4, o[i][c], inverse));
#if LSE
      if (tx == 0u) lse_store(head * queries + m, most[i] + tv_log(sum));
#endif
    }
  }
}

void main() {
  if (!find_place()) return;
  find_operands();
  find_keys();
  load_queries();
  EACH_ROW {
    EACH_COLUMN o[i][c] = vec4(0.0);
    most[i] = MINUS_INF;
    total[i] = 0.0;
  }
  for (uint n0 = begin; n0 < last; n0 += BN) {
    load_keys(n0);
    load_values(n0);
    barrier();
    multiply_keys();
    softmax(n0);
    barrier();
    add_values();
    barrier();
  }
  store();
}
