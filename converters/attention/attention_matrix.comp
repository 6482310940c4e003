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

float larger(const in float a, const in float b) { return a > b ? a : b; }
float plus(const in float a, const in float b) { return a + b; }

#if NV2
#define REDUCE(m, f) { Sums r_; coopMatReduceNV(r_, m, gl_CooperativeMatrixReduceRowNV, f); m = r_; }
#define PROBABILITIES(a, s, j) a = FragA(s);
#else
// Through the patch at `corner`: each row's result takes the place of all of its elements.
#define REDUCE(m, f)                                                                              \
  {                                                                                               \
    coopMatStore(m, sh, corner, 5, gl_CooperativeMatrixLayoutRowMajor);                           \
    subgroupBarrier();                                                                            \
    for (uint t_ = gl_SubgroupInvocationID; t_ < 16u; t_ += gl_SubgroupSize) {                    \
      float v_ = uintBitsToFloat(sh[corner + t_ * 5u].x);                                         \
      FOR(e_, 15) v_ = f(v_, uintBitsToFloat(sh[corner + t_ * 5u + (e_ + 1u) / 4u][(e_ + 1u) % 4u])); \
      FOR(e_, 4) sh[corner + t_ * 5u + e_] = uvec4(floatBitsToUint(v_));                          \
    }                                                                                             \
    subgroupBarrier();                                                                            \
    coopMatLoad(m, sh, corner, 5, gl_CooperativeMatrixLayoutRowMajor);                            \
    subgroupBarrier();                                                                            \
  }
#define PROBABILITIES(a, s, j)                                                                    \
  {                                                                                               \
    const Halves h_ = Halves(s);                                                                  \
    coopMatStore(h_, sh, corner + j * 2u, LDP, gl_CooperativeMatrixLayoutRowMajor);               \
    subgroupBarrier();                                                                            \
    coopMatLoad(a, sh, corner + j * 2u, LDP, gl_CooperativeMatrixLayoutRowMajor);                 \
    subgroupBarrier();                                                                            \
  }
#endif

#if ROUND
float rounded(float f) {
  const uint u = floatBitsToUint(f);
  return uintBitsToFloat((u + 0x7fffu + (u >> 16 & 1u)) & 0xffff0000u);
}
#else
#define rounded(f) (f)
#endif

// 8 elements of row `row`, column 8 c, of an operand whose head begins at `first`.
#define CHUNK(x, first, row, ld, c) tv_ref_u32x4(x##_ptr).v[((first) + (row) * (ld)) / 8u + (c)]

const uint NK = KEYS * (D / 8) / LOCAL_X, NV = KEYS * (DV / 8) / LOCAL_X;  // chunks an invocation

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
  FOR(r, RB) {
    for (uint e = lane; e < 16u * (D / 8); e += gl_SubgroupSize) {
      const uint m = min(row0 + r * 16u + e / (D / 8), queries - 1u), c = e % (D / 8);
      sh[warp * (16u * LDK) + e / (D / 8) * LDK + c] = CHUNK(q, q_offset, m, q_m, c);
    }
    subgroupBarrier();
    FOR(c, D / 16) {
      coopMatLoad(q[r][c], sh, warp * (16u * LDK) + c * 2u, LDK, gl_CooperativeMatrixLayoutRowMajor);
    }
    subgroupBarrier();
  }

  const float by = SCALE * LOG2_E;
  Sums o[RB][DV / 16], most[RB], total[RB];
  FOR(r, RB) {
    FOR(c, DV / 16) o[r][c] = Sums(0.0);
    most[r] = Sums(LOWEST);
    total[r] = Sums(0.0);
  }

#if CAUSAL
  const uint last = min(keys, m0 + BM);
#else
  const uint last = keys;
#endif
  // A tile waits in registers while the one before it is used.
  uvec4 next_k[NK], next_v[NV];
#define FETCH(n0)                                                                                 \
  FOR(i, NK) {                                                                                    \
    const uint e = thread + i * LOCAL_X, n = (n0) + e / (D / 8), c = e % (D / 8);                 \
    next_k[i] = n < keys ? CHUNK(k, k_offset, n, k_n, c) : uvec4(0u);                             \
  }                                                                                               \
  FOR(i, NV) {                                                                                    \
    const uint e = thread + i * LOCAL_X, n = (n0) + e / (DV / 8), c = e % (DV / 8);               \
    next_v[i] = n < keys ? CHUNK(v, v_offset, n, v_n, c) : uvec4(0u);                             \
  }
  FETCH(0u)
  for (uint n0 = 0u; n0 < last; n0 += KEYS) {
    barrier();
    FOR(i, NK) {
      const uint e = thread + i * LOCAL_X;
      sh[e / (D / 8) * LDK + e % (D / 8)] = next_k[i];
    }
    FOR(i, NV) {
      const uint e = thread + i * LOCAL_X;
      sh[V_AT + e / (DV / 8) * LDV + e % (DV / 8)] = next_v[i];
    }
    barrier();
    if (n0 + KEYS < last) { FETCH(n0 + KEYS) }

    const uint n1 = n0 + wk * BN;
    Sums s[RB][BN / 16];
    FOR(r, RB) FOR(j, BN / 16) s[r][j] = Sums(0.0);
    FOR(c, D / 16) FOR(j, BN / 16) {
      FragB k;
      coopMatLoad(k, sh, (wk * BN + j * 16u) * LDK + c * 2u, LDK,
                  gl_CooperativeMatrixLayoutColumnMajor);
      FOR(r, RB) s[r][j] = coopMatMulAdd(q[r][c], k, s[r][j]);
    }

    FOR(r, RB) FOR(j, BN / 16) s[r][j] *= by;
#if MASK == 0 && CAUSAL
    if (n1 + BN > min(keys, row0 + 1u)) {
#elif MASK == 0
    if (n1 + BN > keys) {
#endif
      Sums places;
      coopMatLoad(places, sh, PLACES_AT, 4, gl_CooperativeMatrixLayoutRowMajor);
      FOR(r, RB) FOR(j, BN / 16) {
        FOR(e, places.length()) {  // a dynamic index would put the scores into memory
          const uint place = uint(places[e]);
          const uint m = row0 + r * 16u + place / 16u, n = n1 + j * 16u + place % 16u;
          bool seen = n < keys;
#if CAUSAL
          seen = seen && n <= m;
#endif
#if MASK == 1
          if (seen && m < queries) seen = mask_raw(mask_offset + m * mask_m + n * mask_n) != 0;
#elif MASK == 2
          if (seen && m < queries) {
            s[r][j][e] += float(mask_raw(mask_offset + m * mask_m + n * mask_n)) * LOG2_E;
          }
#endif
          if (!seen) s[r][j][e] = uintBitsToFloat(0xff800000u);
        }
      }
#if MASK == 0
    }
#endif

    FOR(r, RB) {
      Sums largest = s[r][0];
      FOR(j, BN / 16 - 1) FOR(e, largest.length()) {
        largest[e] = max(largest[e], s[r][j + 1u][e]);
      }
      REDUCE(largest, larger)
      Sums shrink;
      FOR(e, largest.length()) {
        largest[e] = max(largest[e], most[r][e]);
        shrink[e] = exp2(most[r][e] - largest[e]);
        total[r][e] *= shrink[e];
      }
      most[r] = largest;
      FOR(c, DV / 16) FOR(e, largest.length()) o[r][c][e] *= shrink[e];
      FOR(j, BN / 16) {
        FOR(e, largest.length()) {
          const float p = exp2(s[r][j][e] - largest[e]);
          total[r][e] += p;
          s[r][j][e] = rounded(p);
        }
      }
    }
    FOR(j, BN / 16) {
      FragA p[RB];
      FOR(r, RB) { PROBABILITIES(p[r], s[r][j], j) }
      FOR(c, DV / 16) {
        FragB v;
        coopMatLoad(v, sh, V_AT + (wk * BN + j * 16u) * LDV + c * 2u, LDV,
                    gl_CooperativeMatrixLayoutRowMajor);
        FOR(r, RB) o[r][c] = coopMatMulAdd(p[r], v, o[r][c]);
      }
    }
  }

  FOR(r, RB) { REDUCE(total[r], plus) }
  barrier();
#if WK > 1
  // Subgroups past the first leave what they have, the first adds it to its own, in order.
#define LEFT(part, r) ((((part) * WQ + wq) * RB + (r)) * MERGE)
  if (wk > 0u) {
    FOR(r, RB) {
      FOR(c, DV / 16) {
        coopMatStore(o[r][c], sh, LEFT(wk - 1u, r) + c * 64u, 4, gl_CooperativeMatrixLayoutRowMajor);
      }
      coopMatStore(most[r], sh, LEFT(wk - 1u, r) + DV * 4, 4, gl_CooperativeMatrixLayoutRowMajor);
      coopMatStore(total[r], sh, LEFT(wk - 1u, r) + DV * 4 + 64u, 4,
                   gl_CooperativeMatrixLayoutRowMajor);
    }
  }
  barrier();
  if (wk == 0u) {
    for (uint part = 0u; part < WK - 1u; part++) FOR(r, RB) {
      Sums other, mine, theirs;
      coopMatLoad(other, sh, LEFT(part, r) + DV * 4, 4, gl_CooperativeMatrixLayoutRowMajor);
      FOR(e, other.length()) {
        const float largest = max(most[r][e], other[e]);
        mine[e] = exp2(most[r][e] - largest);
        theirs[e] = exp2(other[e] - largest);
        most[r][e] = largest;
      }
      coopMatLoad(other, sh, LEFT(part, r) + DV * 4 + 64u, 4, gl_CooperativeMatrixLayoutRowMajor);
      FOR(e, other.length()) total[r][e] = total[r][e] * mine[e] + other[e] * theirs[e];
      FOR(c, DV / 16) {
        coopMatLoad(other, sh, LEFT(part, r) + c * 64u, 4, gl_CooperativeMatrixLayoutRowMajor);
        FOR(e, other.length()) o[r][c][e] = o[r][c][e] * mine[e] + other[e] * theirs[e];
      }
    }
  }
  barrier();
  if (wk > 0u) return;
#endif

  // 64 columns at a time through a patch, to the fused tail.
  const uint spot = wq * PATCH;
  FOR(r, RB) {
    FOR(e, total[r].length()) {
      const float sum = total[r][e];
      total[r][e] = INVERSE(sum);
    }
    FOR(c4, (DV + 63) / 64) {
      FOR(c, 4) {
        if (c4 * 4u + c < DV / 16u) {
          FOR(e, total[r].length()) {
            o[r][c4 * 4u + c][e] = RESULT(float, o[r][c4 * 4u + c][e], total[r][e]);
          }
          coopMatStore(o[r][c4 * 4u + c], sh, spot + c * 4u, PATCH_LD,
                       gl_CooperativeMatrixLayoutRowMajor);
        }
      }
      subgroupBarrier();
      for (uint e = lane; e < 256u; e += gl_SubgroupSize) {
        const uint m = row0 + r * 16u + e / 16u, d = c4 * 64u + e % 16u * 4u;
        if (m < queries && d < DV) {
          y_store4((head * queries + m) * DV + d,
                   uintBitsToFloat(sh[spot + e / 16u * PATCH_LD + e % 16u]));
        }
      }
      subgroupBarrier();
    }
#if LSE
    coopMatStore(most[r], sh, spot, 4, gl_CooperativeMatrixLayoutRowMajor);
    coopMatStore(total[r], sh, spot + 64u, 4, gl_CooperativeMatrixLayoutRowMajor);
    subgroupBarrier();
    for (uint e = lane; e < 16u; e += gl_SubgroupSize) {
      const uint m = row0 + r * 16u + e;
      const float inverse = uintBitsToFloat(sh[spot + 64u + e * 4u].x);
      const float largest = uintBitsToFloat(sh[spot + e * 4u].x);
      // A row of no key has no sum, and its largest is no score.
      const float sums = inverse == 0.0 ? uintBitsToFloat(0xff800000u) : largest * LN_2 - tv_log(inverse);
      if (m < queries) lse_store(head * queries + m, sums);
    }
    subgroupBarrier();
#endif
  }
}
