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

/// The score of query m and key n; of a key that the query does not see -infinity.
float masked(float score, uint m, uint n) {
  bool seen = n < keys;
#if CAUSAL
  seen = seen && SEES(first_query + int(m), n);
#endif
#if MASK == 1
  if (seen && m < queries) seen = mask_raw(mask_from + m * mask_m + n * mask_n) != 0;
#elif MASK == 2
  if (seen && m < queries) score += float(mask_raw(mask_from + m * mask_m + n * mask_n)) * LOG2_E;
#endif
  return seen ? score : uintBitsToFloat(0xff800000u);
}

/// Whether a query of the subgroup may not see a key of a tile from n1 on; of most tiles all are
/// seen.
bool hides(uint n1) {
#if MASK != 0 || WINDOW != 0
  return true;
#elif CAUSAL
  return n1 + BN > seen_end(first_query + int(row0));
#else
  return n1 + BN > keys;
#endif
}

// Scores of keys n1 … that the subgroup's queries do not see become -infinity. The elements' places
// come from a matrix of their numbers; a dynamic index would put the scores into memory.
#define MASK_SCORES(s, n1)                                                                        \
  if (hides(n1)) {                                                                                \
    Sums places;                                                                                  \
    coopMatLoad(places, sh, PLACES_AT, 4, gl_CooperativeMatrixLayoutRowMajor);                    \
    FOR(r, RB) FOR(j, BN / 16) {                                                                  \
      FOR(e, places.length()) {                                                                   \
        const uint place = uint(places[e]);                                                       \
        s[r][j][e] = masked(s[r][j][e], row0 + r * 16u + place / 16u,                             \
                            (n1) + j * 16u + place % 16u);                                        \
      }                                                                                           \
    }                                                                                             \
  }

// Before the first tile.
#define START(o, most, total)                                                                     \
  FOR(r, RB) {                                                                                    \
    FOR(c, DV / 16) o[r][c] = Sums(0.0);                                                          \
    most[r] = Sums(LOWEST);                                                                       \
    total[r] = Sums(0.0);                                                                         \
  }

// The largest of each row of the scores s[BN / 16], in the place of all of its elements.
#define FIND_LARGEST(largest, s, corner)                                                          \
  largest = s[0];                                                                                 \
  FOR(j, BN / 16 - 1) FOR(e, largest.length()) largest[e] = max(largest[e], s[j + 1u][e]);        \
  REDUCE(largest, larger, corner)
// What rows have so far, results o[DV / 16] and total, is brought to the largest score; `largest`
// and `most` become it.
#define BRING_TO(largest, o, most, total)                                                         \
  Sums shrink;                                                                                    \
  FOR(e, largest.length()) {                                                                      \
    largest[e] = max(largest[e], most[e]);                                                        \
    shrink[e] = exp2(most[e] - largest[e]);                                                       \
    total[e] *= shrink[e];                                                                        \
  }                                                                                               \
  most = largest;                                                                                 \
  FOR(c, DV / 16) FOR(e, largest.length()) o[c][e] *= shrink[e];
// Scores become powers, which `total` gets.
#define ADD_POWERS(s, largest, total)                                                             \
  FOR(j, BN / 16) {                                                                               \
    FOR(e, largest.length()) {                                                                    \
      const float p = exp2(s[j][e] - largest[e]);                                                 \
      total[e] += p;                                                                              \
      s[j][e] = rounded(p);                                                                       \
    }                                                                                             \
  }
// The online softmax of rows of scores.
#define SOFTMAX(s, o, most, total, corner)                                                        \
  FOR(r, RB) {                                                                                    \
    Sums largest;                                                                                 \
    FIND_LARGEST(largest, s[r], corner)                                                           \
    BRING_TO(largest, o[r], most[r], total[r])                                                    \
    ADD_POWERS(s[r], largest, total[r])                                                           \
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
