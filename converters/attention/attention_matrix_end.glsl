// How attention_matrix.comp ends: results of subgroups that shared the keys become one and go to
// memory.

#if WK > 1
// Subgroups past the first leave what they have, the first adds it to its own, in order.
#define LEFT(part, wq, r) ((((part) * WQ + wq) * RB + (r)) * MERGE)
#define MERGE_SHARES(o, most, total, wq, wk)                                                      \
  if (wk > 0u) {                                                                                  \
    FOR(r, RB) {                                                                                  \
      FOR(c, DV / 16) {                                                                           \
        coopMatStore(o[r][c], sh, LEFT(wk - 1u, wq, r) + c * 64u, 4,                              \
                     gl_CooperativeMatrixLayoutRowMajor);                                         \
      }                                                                                           \
      coopMatStore(most[r], sh, LEFT(wk - 1u, wq, r) + DV * 4, 4,                                 \
                   gl_CooperativeMatrixLayoutRowMajor);                                           \
      coopMatStore(total[r], sh, LEFT(wk - 1u, wq, r) + DV * 4 + 64u, 4,                          \
                   gl_CooperativeMatrixLayoutRowMajor);                                           \
    }                                                                                             \
  }                                                                                               \
  barrier();                                                                                      \
  if (wk == 0u) {                                                                                 \
    for (uint part = 0u; part < WK - 1u; part++) FOR(r, RB) {                                     \
      Sums other, mine, theirs;                                                                   \
      coopMatLoad(other, sh, LEFT(part, wq, r) + DV * 4, 4, gl_CooperativeMatrixLayoutRowMajor);  \
      FOR(e, other.length()) {                                                                    \
        const float largest = max(most[r][e], other[e]);                                          \
        mine[e] = exp2(most[r][e] - largest);                                                     \
        theirs[e] = exp2(other[e] - largest);                                                     \
        most[r][e] = largest;                                                                     \
      }                                                                                           \
      coopMatLoad(other, sh, LEFT(part, wq, r) + DV * 4 + 64u, 4,                                 \
                  gl_CooperativeMatrixLayoutRowMajor);                                            \
      FOR(e, other.length()) total[r][e] = total[r][e] * mine[e] + other[e] * theirs[e];          \
      FOR(c, DV / 16) {                                                                           \
        coopMatLoad(other, sh, LEFT(part, wq, r) + c * 64u, 4,                                    \
                    gl_CooperativeMatrixLayoutRowMajor);                                          \
        FOR(e, other.length()) o[r][c][e] = o[r][c][e] * mine[e] + other[e] * theirs[e];          \
      }                                                                                           \
    }                                                                                             \
  }
#endif

#if LSE
// The logarithms of the sums of rows row0 + 16 r …, through the patch at `spot`. A row of no key
// has no sum, and its largest is no score.
#define STORE_LSE(most, total, r, head, row0, spot, lane)                                         \
  coopMatStore(most[r], sh, spot, 4, gl_CooperativeMatrixLayoutRowMajor);                         \
  coopMatStore(total[r], sh, spot + 64u, 4, gl_CooperativeMatrixLayoutRowMajor);                  \
  subgroupBarrier();                                                                              \
  for (uint e = lane; e < 16u; e += gl_SubgroupSize) {                                            \
    const uint m = row0 + r * 16u + e;                                                            \
    const float inverse = uintBitsToFloat(sh[spot + 64u + e * 4u].x);                             \
    const float largest = uintBitsToFloat(sh[spot + e * 4u].x);                                   \
    const float sums = inverse == 0.0 ? uintBitsToFloat(0xff800000u)                              \
        : largest * LN_2 - tv_log(inverse);                                                       \
    if (m < queries) lse_store(head * queries + m, sums);                                         \
  }                                                                                               \
  subgroupBarrier();
#else
#define STORE_LSE(most, total, r, head, row0, spot, lane)
#endif
// Results o over their totals, 64 columns at a time through the patch at `spot`, to the epilogue.
#define STORE_TILE(o, most, total, head, row0, spot, lane)                                        \
  FOR(r, RB) {                                                                                    \
    FOR(e, total[r].length()) {                                                                   \
      const float sum = total[r][e];                                                              \
      total[r][e] = INVERSE(sum);                                                                 \
    }                                                                                             \
    FOR(c4, (DV + 63) / 64) {                                                                     \
      FOR(c, 4) {                                                                                 \
        if (c4 * 4u + c < DV / 16u) {                                                             \
          FOR(e, total[r].length()) {                                                             \
            o[r][c4 * 4u + c][e] = RESULT(float, o[r][c4 * 4u + c][e], total[r][e]);              \
          }                                                                                       \
          coopMatStore(o[r][c4 * 4u + c], sh, spot + c * 4u, PATCH_LD,                            \
                       gl_CooperativeMatrixLayoutRowMajor);                                       \
        }                                                                                         \
      }                                                                                           \
      subgroupBarrier();                                                                          \
      for (uint e = lane; e < 256u; e += gl_SubgroupSize) {                                       \
        const uint m = row0 + r * 16u + e / 16u, d = c4 * 64u + e % 16u * 4u;                     \
        if (m < queries && d < DV) {                                                              \
          y_store4((head * queries + m) * DV + d,                                                 \
                   uintBitsToFloat(sh[spot + e / 16u * PATCH_LD + e % 16u]));                     \
        }                                                                                         \
      }                                                                                           \
      subgroupBarrier();                                                                          \
    }                                                                                             \
    STORE_LSE(most, total, r, head, row0, spot, lane)                                             \
  }
