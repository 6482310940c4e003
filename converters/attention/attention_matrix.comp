// y = softmax(scale · q kᵀ + mask) · v on matrix units, with no score in memory: 16-bit operands,
// sums and the online softmax (attention_flash.comp) in fp32.
//
// A workgroup takes 16 RB WQ queries of one head; a subgroup has 16 RB of them, as rows of matrices
// in registers. Tiles of BN WK keys and their values lie in shared memory, of which each of the WK
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
// Shared rows are an odd number of uvec4s apart.
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

// Where an invocation is: its workgroup has queries m0 … of head `head`, its subgroup (wq, wk) rows
// row0 … of them and part wk of each tile of keys. corner: of its patch.
uint thread, lane, warp, wq, wk, m0, row0, head, corner;
int first_query;                 // its place
uint begin, last;                // keys that a query sees
uint q_from, k_from, v_from, mask_from;  // where the head's begin

#include "attention_matrix_rows.glsl"
#include "attention_matrix_load.glsl"
#include "attention_places.glsl"
#include "attention_matrix_tile.glsl"
#include "attention_matrix_end.glsl"

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
  thread = gl_SubgroupID * gl_SubgroupSize + gl_SubgroupInvocationID;
  lane = gl_SubgroupInvocationID;
  warp = gl_SubgroupID;
  wq = warp % WQ;
  wk = warp / WQ;
  row0 = m0 + wq * (16u * RB);
  corner = PATCH_AT + warp * PATCH;
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
}

void find_keys() {
#if CAUSAL
  first_query = FIRST_QUERY;
  last = seen_end(first_query + int(m0 + BM) - 1);
  begin = seen_begin(first_query + int(m0)) / KEYS * KEYS;
#else
  last = keys;
  begin = 0u;
#endif
}

/// 16 row + column of each element of a matrix.
void number_places() {
  for (uint e = thread; e < 64u; e += LOCAL_X) {
    sh[PLACES_AT + e] = floatBitsToUint(vec4(e * 4u, e * 4u + 1u, e * 4u + 2u, e * 4u + 3u));
  }
}

void main() {
  if (!find_place()) return;
  find_operands();
  number_places();
  FragA q[RB][D / 16];
  LOAD_QUERIES(q, warp * (16u * LDK))
  const float by = SCALE * LOG2_E;
  Sums o[RB][DV / 16], most[RB], total[RB];
  START(o, most, total)
  find_keys();
  fetch(begin);  // a tile waits in registers while the one before it is used
  for (uint n0 = begin; n0 < last; n0 += KEYS) {
    barrier();
    stash();
    barrier();
    if (n0 + KEYS < last) fetch(n0 + KEYS);

    Sums s[RB][BN / 16];
    FOR(r, RB) FOR(j, BN / 16) s[r][j] = Sums(0.0);
    ADD_SCORES(s, q, wk * BN)
    FOR(r, RB) FOR(j, BN / 16) s[r][j] *= by;
    MASK_SCORES(s, n0 + wk * BN)
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
  STORE_TILE(o, most, total, wq * PATCH)
}
