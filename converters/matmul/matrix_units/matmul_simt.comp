// y[z][m][n] = sum over k of a[z][m][k] * b[z][k][n] in fp32, without matrix units.
//
// Tiles of BM x BN outputs a workgroup and RM x RN an invocation (4x4 blocks spread over the tile),
// BK steps of k at a time through two buffers of shared memory with one barrier a tile; the next
// column of operands is in registers across it. A_COLS: neighbours in memory are those of a column
// of a, else of a row; B_COLS likewise; both are loaded four at a time. BLOCK n: every n pairs of
// tiles the sums are added to a second set, so that rounding grows with the blocks; 0: one set.
// FALLBACK: only what a product in float16 pieces leaves out (fallback.glsl). WHOLE_M, WHOLE_N,
// WHOLE_K: m, n, k are multiples of BM, BN, 2 BK. GROUP: tile rows walked together.
// Grid: (tiles of m * tiles of n, 1, z); local (BM / RM) * (BN / RN).

#extension GL_EXT_buffer_reference2 : require

#include "batch.glsl"
#include "epilogue.glsl"
#if FALLBACK
#include "fallback.glsl"
#endif

#define FOR(i, n) [[unroll]] for (uint i = 0u; i < uint(n); i++)
layout(buffer_reference, scalar, buffer_reference_align = 16) buffer tv_fours { vec4 v; };

// Rows of the transposed a are PAD apart more than they are long: fewer bank conflicts.
const uint PAD = 4, LDA = BM + PAD, LDB = BN + (B_COLS == 1 ? 4 : 0);
shared vec4 sa[2][BK * LDA / 4];
shared vec4 sb[2][BK * LDB / 4];
const uint NA = BM * BK / 4 / LOCAL_X, NB = BN * BK / 4 / LOCAL_X;
const uint LINE_A = A_COLS == 1 ? BM : BK, LINE_B = B_COLS == 1 ? BK : BN;
const uint STEP_A = LOCAL_X / (LINE_A / 4), STEP_B = LOCAL_X / (LINE_B / 4);
#define TILES_K ((k_count + BK - 1) / BK)
#define LD_A (a_ld / 4)
#define LD_B (b_ld / 4)

// Where an invocation is: tile (bm, bn) of matrix z, and its 4x4 blocks (ty, tx) of that.
uint z, bm, bn, tx, ty;
// What it loads of a tile of k: vectors from row_a, col_a on, STEP_A rows apart, of what lies at
// pa; of b likewise.
uint row_a, col_a, row_b, col_b;
tv_fours pa, pb;
vec4 ra[NA], rb[NB];                    // these vectors, on their way from memory
vec4 fa[2][RM / 4], fb[2][RN / 4];      // operands of a step of k and of the next
vec4 acc[RM][RN / 4];                   // its sums
#if BLOCK
vec4 total[RM][RN / 4];
#define SUMS total
#else
#define SUMS acc
#endif
#define EACH_SUM FOR(i, RM) FOR(j, RN / 4)

void find_tile() {
  const uint tiles_m = (m_count + BM - 1) / BM, tiles_n = (n_count + BN - 1) / BN;
  const uint id = gl_WorkGroupID.x, tid = gl_LocalInvocationID.x;
  z = gl_WorkGroupID.z;
  const uint first = id / (GROUP * tiles_n) * GROUP, rows = min(GROUP, tiles_m - first);
  const uint rest = id % (GROUP * tiles_n);
  bm = first + rest % rows;
  bn = rest / rows;
  // 32 neighbours cover 4 x 8 invocations, so that their reads of a hit 4 and of b 8 vectors.
  const uint TX = BN / RN, warp = tid / 32, lane = tid % 32;
  tx = lane % 8 + warp % (TX / 8) * 8;
  ty = lane / 8 + warp / (TX / 8) * 4;
  row_a = tid / (LINE_A / 4);
  col_a = tid % (LINE_A / 4);
  row_b = tid / (LINE_B / 4);
  col_b = tid % (LINE_B / 4);
}

#if FALLBACK
/// Whether the tile has outputs that the product in float16 pieces left out.
bool tile_needs_fallback() {
  float most_a = 0.0, most_b = 0.0;
  for (uint g = bm * (BM / 16); g < min((bm + 1) * (BM / 16), (m_count + 15) / 16); g++) {
    most_a = max(most_a, lost_a(z, g));
  }
  for (uint g = bn * (BN / 16); g < min((bn + 1) * (BN / 16), (n_count + 15) / 16); g++) {
    most_b = max(most_b, lost_b(z, g));
  }
  return most_a + most_b > 1.0;
}
#define NEEDS_FALLBACK(z, m, n) needs_fallback(z, m, n)
#else
#define NEEDS_FALLBACK(z, m, n) true
#endif

// Vector i of a tile of a lies place_a(i) vectors from pa on and begins with step step_a(at, i) of
// k in tile `at`; tiles lie A_NEXT apart. Rows past the last repeat it.
#if A_COLS
#define A_NEXT (BK * LD_A)
void find_a() {
  pa = tv_fours(a_ptr) + (BATCH_OFFSET(z, az) / 4 + row_a * LD_A +
      min(bm * (BM / 4) + col_a, m_count / 4 - 1));
}
uint place_a(uint i) { return i * STEP_A * LD_A; }
uint step_a(uint at, uint i) { return at * BK + row_a + i * STEP_A; }
#else
#define A_NEXT (BK / 4)
#if WHOLE_M
void find_a() {
  pa = tv_fours(a_ptr) + (BATCH_OFFSET(z, az) / 4 + (bm * BM + row_a) * LD_A + col_a);
}
uint place_a(uint i) { return i * STEP_A * LD_A; }
#else
uint rows_a[NA];
void find_a() {
  pa = tv_fours(a_ptr) + (BATCH_OFFSET(z, az) / 4 + col_a);
  FOR(i, NA) rows_a[i] = min(bm * BM + row_a + i * STEP_A, m_count - 1) * LD_A;
}
uint place_a(uint i) { return rows_a[i]; }
#endif
uint step_a(uint at, uint i) { return at * BK + col_a * 4; }
#endif

#if B_COLS
#define B_NEXT (BK / 4)
uint rows_b[NB];
void find_b() {
  pb = tv_fours(b_ptr) + (BATCH_OFFSET(z, bz) / 4 + col_b);
  FOR(i, NB) rows_b[i] = min(bn * BN + row_b + i * STEP_B, n_count - 1) * LD_B;
}
uint place_b(uint i) { return rows_b[i]; }
uint step_b(uint at, uint i) { return at * BK + col_b * 4; }
#else
#define B_NEXT (BK * LD_B)
void find_b() {
  pb = tv_fours(b_ptr) + (BATCH_OFFSET(z, bz) / 4 + row_b * LD_B +
      min(bn * (BN / 4) + col_b, n_count / 4 - 1));
}
uint place_b(uint i) { return i * STEP_B * LD_B; }
uint step_b(uint at, uint i) { return at * BK + row_b + i * STEP_B; }
#endif

/// Tile t of k from memory into registers. Past the last: the last again where nobody uses it, else
/// zeros.
void fetch(uint t) {
#if WHOLE_K
  const uint at = min(t, TILES_K - 1);
  tv_fours qa = pa + at * A_NEXT, qb = pb + at * B_NEXT;
  FOR(i, NA) ra[i] = qa[place_a(i)].v;
  FOR(i, NB) rb[i] = qb[place_b(i)].v;
#else
  tv_fours qa = pa + t * A_NEXT, qb = pb + t * B_NEXT;
  FOR(i, NA) { ra[i] = vec4(0.0); if (step_a(t, i) < k_count) ra[i] = qa[place_a(i)].v; }
  FOR(i, NB) { rb[i] = vec4(0.0); if (step_b(t, i) < k_count) rb[i] = qb[place_b(i)].v; }
#endif
}

/// From there into buffer s of shared memory.
void stash(uint s) {
#if A_COLS
  FOR(i, NA) sa[s][(row_a + i * STEP_A) * (LDA / 4) + col_a] = ra[i];
#else
  FOR(i, NA) FOR(e, 4) {
    sa[s][(col_a * 4 + e) * (LDA / 4) + (row_a + i * STEP_A) / 4][(row_a + i * STEP_A) % 4] =
        ra[i][e];
  }
#endif
#if B_COLS
  FOR(i, NB) FOR(e, 4) {
    sb[s][(col_b * 4 + e) * (LDB / 4) + (row_b + i * STEP_B) / 4][(row_b + i * STEP_B) % 4] =
        rb[i][e];
  }
#else
  FOR(i, NB) sb[s][(row_b + i * STEP_B) * (LDB / 4) + col_b] = rb[i];
#endif
}

/// Operands of step k of buffer s into fa[slot], fb[slot].
void load(uint slot, uint s, uint k) {
  FOR(i, RM / 4) fa[slot][i] = sa[s][k * (LDA / 4) + i * (BM / RM) + ty];
  FOR(j, RN / 4) fb[slot][j] = sb[s][k * (LDB / 4) + j * (BN / RN) + tx];
}

void multiply(uint slot) {
  EACH_SUM acc[i][j] = fma(vec4(fa[slot][i / 4][i % 4]), fb[slot][j], acc[i][j]);
}

/// Buffer s, which holds tile t, while later tiles are on their way; the last step of it waits for
/// the other buffer.
void multiply_tile(uint s, uint t) {
  FOR(k, BK - 1) {
    load((k + 1) % 2, s, k + 1);
    multiply(k % 2);
  }
  barrier();
  load(BK % 2, 1 - s, 0);
  multiply((BK - 1) % 2);
  stash(s);
  fetch(t + 3);
}

void start() {
  EACH_SUM acc[i][j] = vec4(0.0);
#if BLOCK
  EACH_SUM total[i][j] = vec4(0.0);
#endif
  fetch(0);
  stash(0);
  fetch(1);
  stash(1);
  fetch(2);
  barrier();
  load(0, 0, 0);
}

#if BLOCK
void add_block() {
  EACH_SUM {
    total[i][j] += acc[i][j];
    acc[i][j] = vec4(0.0);
  }
}
#endif

void store() {
  EACH_STORE(r, RM * RN / 4) {
    const uint i = r / (RN / 4), j = r % (RN / 4);
    const uint m = bm * BM + i / 4 * (BM * 4 / RM) + ty * 4 + i % 4;
    const uint n = bn * BN + j * (BN * 4 / RN) + tx * 4;
    vec4 v;
    PICK(q, r, RM * RN / 4, v = SUMS[q / (RN / 4)][q % (RN / 4)])
    if (m < m_count && n < n_count && NEEDS_FALLBACK(z, m, n)) {
      const uint at = (z * m_count + m) * n_count + n;
#if N4
      y_store4(at, v);
#else
      FOR(e, 4) { if (n + e < n_count) y_store(at + e, v[e]); }
#endif
    }
  }
}

void main() {
  find_tile();
#if FALLBACK
  if (!tile_needs_fallback()) return;
#endif
  find_a();
  find_b();
  start();
  for (uint t = 0u; t < TILES_K; t += 2u) {
    multiply_tile(0, t);
    multiply_tile(1, t + 1);
#if BLOCK
    if ((t / 2u + 1u) % BLOCK == 0u || t + 2u >= TILES_K) add_block();
#endif
  }
  store();
}
