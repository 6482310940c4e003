// y = softmax(scale · q kᵀ + mask) · v on matrix units, with no score in memory: 16-bit operands,
// sums and the online softmax (attention_flash.comp) in fp32.
//
// A workgroup takes 16 RB WQ queries of one head; a subgroup has 16 RB of them, as rows of matrices in
// registers. Tiles of BN WK keys and their values lie in shared memory, of which each of the WK
// subgroups with the same queries takes BN; their results are merged in the end. What invocation
// holds which element is the driver's: what is done by row goes through matrices of the same type.
// NV2: rows are reduced and sums become operands in registers (GL_NV_cooperative_matrix2), else
// through a patch of shared memory. D, DV: multiples of 16; operands lie at multiples of 16 bytes.
// Other defines as in attention_flash.comp; ROUND: sums are rounded to bfloat16 by hand.
// Grid: flat, (ceil(queries / (16 RB WQ)) · heads).

#define FOR(i, n) [[unroll]] for (uint i = 0u; i < uint(n); i++)
#define Sums coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator>
#define Halves coopmat<float16_t, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator>
#define FragA coopmat<float16_t, gl_ScopeSubgroup, 16, 16, gl_MatrixUseA>
#define FragB coopmat<float16_t, gl_ScopeSubgroup, 16, 16, gl_MatrixUseB>

const uint BM = 16 * RB * WQ, KEYS = BN * WK;
// Shared rows are an odd number of 16-byte units apart.
const uint LDK = D / 8 + 1, LDV = DV / 8 + 1, LDP = BN / 8 + 1, PATCH_LD = 17;
const uint V_AT = KEYS * LDK, TILE = V_AT + KEYS * LDV;
const uint MERGE = DV / 16 * 64 + 128;  // sums, largest and total of 16 rows
const uint PATCH = 16 * PATCH_LD;       // 64 columns of 16 rows in fp32; scores on their way
const uint QUERIES = WQ * WK * 16 * LDK;
#define LARGER(a, b) ((a) > (b) ? (a) : (b))
const uint SPACE = LARGER(LARGER(TILE, QUERIES), LARGER((WK - 1) * WQ * RB * MERGE, WQ * PATCH));
const uint PLACES_AT = SPACE, PATCH_AT = PLACES_AT + 64;
shared uvec4 sh[PATCH_AT + (NV2 == 1 ? 0 : WQ * WK * PATCH)];

const float LOWEST = -1.0e30;  // of no key yet: finite, so that differences are numbers
const float LOG2_E = 1.44269504, LN_2 = 0.693147181;

#include "attention_matrix_rows.glsl"
#include "attention_matrix_load.glsl"
#include "attention_places.glsl"
#include "attention_matrix_tile.glsl"
#include "attention_matrix_end.glsl"

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
  const uint thread = gl_SubgroupID * gl_SubgroupSize + gl_SubgroupInvocationID;
  const uint lane = gl_SubgroupInvocationID, warp = gl_SubgroupID, wq = warp % WQ, wk = warp / WQ;
  const uint m0 = tile * BM, row0 = m0 + wq * (16u * RB);
  const uint corner = PATCH_AT + warp * PATCH;
  heads_OFFSETS(head)

  // 16 row + column of each element of a matrix.
  for (uint e = thread; e < 64u; e += LOCAL_X) {
    sh[PLACES_AT + e] = floatBitsToUint(vec4(e * 4u, e * 4u + 1u, e * 4u + 2u, e * 4u + 3u));
  }

  FragA q[RB][D / 16];
  LOAD_QUERIES(q, q_offset, row0, warp * (16u * LDK), lane)

  const float by = SCALE * LOG2_E;
  Sums o[RB][DV / 16], most[RB], total[RB];
  FOR(r, RB) {
    FOR(c, DV / 16) o[r][c] = Sums(0.0);
    most[r] = Sums(LOWEST);
    total[r] = Sums(0.0);
  }

#if CAUSAL
  const int first_query = FIRST_QUERY;
  const uint last = seen_end(first_query + int(m0 + BM) - 1);
  const uint begin = seen_begin(first_query + int(m0)) / KEYS * KEYS;
#else
  const uint last = keys, begin = 0u;
#endif
  // A tile waits in registers while the one before it is used.
  uvec4 next_k[NK], next_v[NV];
  FETCH(next_k, next_v, k_offset, v_offset, thread, begin)
  for (uint n0 = begin; n0 < last; n0 += KEYS) {
    barrier();
    STASH(next_k, next_v, thread)
    barrier();
    if (n0 + KEYS < last) { FETCH(next_k, next_v, k_offset, v_offset, thread, n0 + KEYS) }

    const uint n1 = n0 + wk * BN;
    Sums s[RB][BN / 16];
    FOR(r, RB) FOR(j, BN / 16) s[r][j] = Sums(0.0);
    ADD_SCORES(s, q, wk * BN)
    FOR(r, RB) FOR(j, BN / 16) s[r][j] *= by;
    MASK_SCORES(s, mask_offset, row0, n1)
    SOFTMAX(s, o, most, total, corner)
    ADD_VALUES(o, s, wk * BN, corner)
  }

  FOR(r, RB) { REDUCE(total[r], plus, corner) }
  barrier();
#if WK > 1
  MERGE_SHARES(o, most, total, wq, wk)
  barrier();
  if (wk > 0u) return;
#endif
  const uint spot = wq * PATCH;
  STORE_TILE(o, most, total, head, row0, spot, lane)
}
