// What attention_matrix.comp does with a tile of keys and their values, of which a subgroup takes
// BN from row `key` of shared memory on.

// Adds q kT to the scores s[RB][BN / 16].
#define ADD_SCORES(s, q, key)                                                                     \
  FOR(c, D / 16) FOR(j, BN / 16) {                                                                \
    FragB k;                                                                                      \
    coopMatLoad(k, sh, ((key) + j * 16u) * LDK + c * 2u, LDK,                                     \
                gl_CooperativeMatrixLayoutColumnMajor);                                           \
    FOR(r, RB) s[r][j] = coopMatMulAdd(q[r][c], k, s[r][j]);                                      \
  }

// Scores of keys n1 … that queries row0 … do not see become -infinity. `first`: of the head's mask.
// The elements' places come from a matrix of their numbers; a dynamic index would put the scores
// into memory.
#if CAUSAL
#define SEE(seen, m, n) seen = seen && SEES(first_query + int(m), n);
#define LAST_SEEN_BY_ALL(row0) seen_end(first_query + int(row0))
#else
#define SEE(seen, m, n)
#define LAST_SEEN_BY_ALL(row0) keys
#endif
#if MASK == 1
#define APPLY_MASK(seen, score, first, m, n)                                                      \
  if (seen && m < queries) seen = mask_raw(first + m * mask_m + n * mask_n) != 0;
#elif MASK == 2
#define APPLY_MASK(seen, score, first, m, n)                                                      \
  if (seen && m < queries) {                                                                      \
    score += float(mask_raw(first + m * mask_m + n * mask_n)) * LOG2_E; }
#else
#define APPLY_MASK(seen, score, first, m, n)
#endif
#define HIDE_SCORES(s, first, row0, n1)                                                           \
  Sums places;                                                                                    \
  coopMatLoad(places, sh, PLACES_AT, 4, gl_CooperativeMatrixLayoutRowMajor);                      \
  FOR(r, RB) FOR(j, BN / 16) {                                                                    \
    FOR(e, places.length()) {                                                                     \
      const uint place = uint(places[e]);                                                         \
      const uint m = row0 + r * 16u + place / 16u, n = n1 + j * 16u + place % 16u;                \
      bool seen = n < keys;                                                                       \
      SEE(seen, m, n)                                                                             \
      APPLY_MASK(seen, s[r][j][e], first, m, n)                                                   \
      if (!seen) s[r][j][e] = uintBitsToFloat(0xff800000u);                                       \
    }                                                                                             \
  }
#if MASK == 0 && WINDOW == 0  // nothing is hidden of most tiles
#define MASK_SCORES(s, first, row0, n1)                                                           \
  if (n1 + BN > LAST_SEEN_BY_ALL(row0)) { HIDE_SCORES(s, first, row0, n1) }
#else
#define MASK_SCORES(s, first, row0, n1) { HIDE_SCORES(s, first, row0, n1) }
#endif

// The online softmax: scores s become powers, what o[RB][DV / 16] and total[RB] have so far is
// brought to the largest score most[RB].
#define SOFTMAX(s, o, most, total, corner)                                                        \
  FOR(r, RB) {                                                                                    \
    Sums largest = s[r][0];                                                                       \
    FOR(j, BN / 16 - 1) FOR(e, largest.length()) {                                                \
      largest[e] = max(largest[e], s[r][j + 1u][e]);                                              \
    }                                                                                             \
    REDUCE(largest, larger, corner)                                                               \
    Sums shrink;                                                                                  \
    FOR(e, largest.length()) {                                                                    \
      largest[e] = max(largest[e], most[r][e]);                                                   \
      shrink[e] = exp2(most[r][e] - largest[e]);                                                  \
      total[r][e] *= shrink[e];                                                                   \
    }                                                                                             \
    most[r] = largest;                                                                            \
    FOR(c, DV / 16) FOR(e, largest.length()) o[r][c][e] *= shrink[e];                             \
    FOR(j, BN / 16) {                                                                             \
      FOR(e, largest.length()) {                                                                  \
        const float p = exp2(s[r][j][e] - largest[e]);                                            \
        total[r][e] += p;                                                                         \
        s[r][j][e] = rounded(p);                                                                  \
      }                                                                                           \
    }                                                                                             \
  }

// Adds powers times values to o.
#define ADD_VALUES(o, s, key, corner)                                                             \
  FOR(j, BN / 16) {                                                                               \
    FragA p[RB];                                                                                  \
    FOR(r, RB) { PROBABILITIES(p[r], s[r][j], j, corner) }                                        \
    FOR(c, DV / 16) {                                                                             \
      FragB v;                                                                                    \
      coopMatLoad(v, sh, V_AT + ((key) + j * 16u) * LDV + c * 2u, LDV,                            \
                  gl_CooperativeMatrixLayoutRowMajor);                                            \
      FOR(r, RB) o[r][c] = coopMatMulAdd(p[r], v, o[r][c]);                                       \
    }                                                                                             \
  }
