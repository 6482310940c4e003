// How attention_matrix.comp ends: results of subgroups that shared the keys become one and go to
// memory.

#define MOVE(move, m, at, ld) move(m, sh, at, ld, gl_CooperativeMatrixLayoutRowMajor);

#if WK > 1
// Subgroups past the first leave what they have, the first adds it to its own, in order.
#define LEFT(part, wq, r) ((((part) * WQ + wq) * RB + (r)) * MERGE)
// Results o[DV / 16] of 16 rows, their largest scores and their totals, at `at`.
#define LEAVE_ROWS(o, most, total, at)                                                            \
  FOR(c, DV / 16) MOVE(coopMatStore, o[c], (at) + c * 64u, 4)                                     \
  MOVE(coopMatStore, most, (at) + DV * 4, 4)                                                      \
  MOVE(coopMatStore, total, (at) + DV * 4 + 64u, 4)
#define ADD_ROWS(o, most, total, at)                                                              \
  Sums other, mine, theirs;                                                                       \
  MOVE(coopMatLoad, other, (at) + DV * 4, 4)                                                      \
  FOR(e, other.length()) {                                                                        \
    const float largest = max(most[e], other[e]);                                                 \
    mine[e] = exp2(most[e] - largest);                                                            \
    theirs[e] = exp2(other[e] - largest);                                                         \
    most[e] = largest;                                                                            \
  }                                                                                               \
  MOVE(coopMatLoad, other, (at) + DV * 4 + 64u, 4)                                                \
  FOR(e, other.length()) total[e] = total[e] * mine[e] + other[e] * theirs[e];                    \
  FOR(c, DV / 16) {                                                                               \
    MOVE(coopMatLoad, other, (at) + c * 64u, 4)                                                   \
    FOR(e, other.length()) o[c][e] = o[c][e] * mine[e] + other[e] * theirs[e];                    \
  }
#define MERGE_SHARES(o, most, total, wq, wk)                                                      \
  if (wk > 0u) {                                                                                  \
    FOR(r, RB) { LEAVE_ROWS(o[r], most[r], total[r], LEFT(wk - 1u, wq, r)) }                      \
  }                                                                                               \
  barrier();                                                                                      \
  if (wk == 0u) {                                                                                 \
    for (uint part = 0u; part < WK - 1u; part++) FOR(r, RB) {                                     \
      ADD_ROWS(o[r], most[r], total[r], LEFT(part, wq, r))                                        \
    }                                                                                             \
  }
#endif

#if LSE
/// The logarithms of the sums of rows m … m + 15, from the patch at `spot`. A row of no key has no
/// sum, and its largest is no score.
void store_logarithms(uint m, uint spot) {
  for (uint e = lane; e < 16u; e += gl_SubgroupSize) {
    const float inverse = uintBitsToFloat(sh[spot + 64u + e * 4u].x);
    const float largest = uintBitsToFloat(sh[spot + e * 4u].x);
    const float sums = inverse == 0.0 ? uintBitsToFloat(0xff800000u)
        : largest * LN_2 - tv_log(inverse);
    if (m + e < queries) lse_store(head * queries + m + e, sums);
  }
}
#define STORE_LSE(most, total, m, spot)                                                           \
  MOVE(coopMatStore, most, spot, 4)                                                               \
  MOVE(coopMatStore, total, (spot) + 64u, 4)                                                      \
  subgroupBarrier();                                                                              \
  store_logarithms(m, spot);                                                                      \
  subgroupBarrier();
#else
#define STORE_LSE(most, total, m, spot)
#endif

/// Columns d0 … of rows m … m + 15, from the patch at `spot` to the epilogue.
void store_columns(uint m, uint d0, uint spot) {
  for (uint e = lane; e < 256u; e += gl_SubgroupSize) {
    const uint row = m + e / 16u, d = d0 + e % 16u * 4u;
    if (row < queries && d < DV) {
      y_store4((head * queries + row) * DV + d,
               uintBitsToFloat(sh[spot + e / 16u * PATCH_LD + e % 16u]));
    }
  }
}
// Four matrices of results o[DV / 16], from number `first` on, times `inverse`, to the patch.
#define STASH_COLUMNS(o, inverse, first, spot)                                                    \
  FOR(c, 4) {                                                                                     \
    if ((first) + c < DV / 16u) {                                                                 \
      FOR(e, inverse.length()) {                                                                  \
        o[(first) + c][e] = RESULT(float, o[(first) + c][e], inverse[e]);                         \
      }                                                                                           \
      MOVE(coopMatStore, o[(first) + c], (spot) + c * 4u, PATCH_LD)                               \
    }                                                                                             \
  }
// Results o over their totals, 64 columns at a time through the patch at `spot`.
#define STORE_TILE(o, most, total, spot)                                                          \
  FOR(r, RB) {                                                                                    \
    FOR(e, total[r].length()) {                                                                   \
      const float sum = total[r][e];                                                              \
      total[r][e] = INVERSE(sum);                                                                 \
    }                                                                                             \
    FOR(c4, (DV + 63) / 64) {                                                                     \
      STASH_COLUMNS(o[r], total[r], c4 * 4u, spot)                                                \
      subgroupBarrier();                                                                          \
      store_columns(row0 + r * 16u, c4 * 64u, spot);                                              \
      subgroupBarrier();                                                                          \
    }                                                                                             \
    STORE_LSE(most[r], total[r], row0 + r * 16u, spot)                                            \
  }
