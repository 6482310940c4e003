// c[m][n] (+)= sum over k of a[m][a_0 + k] * (q[n][a_0 + k] - zero) * scale, on CPU drivers, where
// q, scale and zero lie in words in the order that matmul_quantised_simd_pack writes.
//
// One chunk of a product along k: PARTS parts of PART steps each, unrolled, because lavapipe gives
// up uniform loads inside of a loop. Longer products are several launches that add into c (the one
// that starts at a_0 = 0 overwrites it). A part lies within one group of GROUP steps, whose sum is
// scaled once. LAST: the sums, with those of c where ADD, go through the fused epilogue to y[m][n],
// cols >= 2 LANES wide, whose last tile of columns is moved back to end with the row.
// CODES, SCALE_CODES: of small floating-point numbers (quantised_weight.glsl).
// A word holds 32 / BITS steps of k, 32 / SCALE_BITS scales (HALF: float16, else bfloat16) and 32 /
// ZERO_BITS zero points (of 32 bits: floats). ZERO_BITS, SCALE_BITS 0: there are none; without zero
// points 4 bits are 8 too large.
// INTEGER: a holds integers below 256 in magnitude, as floats. Those of a part have exact sums,
// which are added up as integers: c holds their bits. BATCHED: z counts matrices, whose zero points
// are one another's. Rows of a past m_last repeat row m_last. Grid: (row tiles of ROWS, column
// tiles of 2 * LANES, z).

#if SMALL_GRID
#define UNIFORM(id) simd_uniform_small(id)
#else
#define UNIFORM(id) simd_uniform(id)
#endif
#if INTEGER
#define SUM ivec2
#define SUM_BITS(v) intBitsToFloat(v)
#define BITS_SUM(v) floatBitsToInt(v)
#else
#define SUM vec2
#define SUM_BITS(v) (v)
#define BITS_SUM(v) (v)
#endif
#if BATCHED
#define OF_BATCH(z, stride) ((z) * (stride))
#else
#define OF_BATCH(z, stride) 0u
#endif

const uint PER = 32u / BITS;

/// Word i of the 2 LANES columns of a tile.
uvec2 words_at(tv_ref_f32 p, uint i) {
  const float left = simd_load(simd_at(p, i * (2u * LANES)));
  return floatBitsToUint(vec2(left, simd_load(simd_at(p, i * (2u * LANES) + LANES))));
}

vec2 values_of(uvec2 words, uint i, bool is_signed, uint bits) {
  if (is_signed) {
    const ivec2 s = ivec2(words);
    return vec2(bitfieldExtract(s, int(i * bits), int(bits)));
  }
  return vec2(words >> (i * bits) & ((1u << bits) - 1u));
}

vec2 elements_of(uvec2 words, uint i) {
#if CODES
  const uvec2 codes = words >> (i * BITS) & ((1u << BITS) - 1u);
  return vec2(FROM_CODE(codes.x), FROM_CODE(codes.y));
#else
  return values_of(words, i, SIGNED != 0, BITS);
#endif
}

vec2 scale_of(tv_ref_f32 p, uint group) {
#if SCALE_BITS == 32
  return uintBitsToFloat(words_at(p, group));
#elif SCALE_BITS == 16
  const uvec2 words = words_at(p, group / 2u) >> (group % 2u * 16u);
#if HALF
  return vec2(tv_from_f16(words.x & 0xffffu), tv_from_f16(words.y & 0xffffu));
#else
  return vec2(tv_from_bf16(words.x & 0xffffu), tv_from_bf16(words.y & 0xffffu));
#endif
#elif SCALE_BITS == 8
  const uvec2 codes = words_at(p, group / 4u) >> (group % 4u * 8u) & 0xffu;
  return vec2(FROM_SCALE_CODE(codes.x), FROM_SCALE_CODE(codes.y));
#else
  return vec2(1.0);
#endif
}

vec2 zero_of(tv_ref_f32 p, uint group) {
#if ZERO_BITS == 32
  return uintBitsToFloat(words_at(p, group));
#elif ZERO_BITS == 8
  return values_of(words_at(p, group / 4u), group % 4u, ZERO_SIGNED != 0, 8u);
#else
  return vec2(BITS == 4 ? 8.0 : 0.0);
#endif
}

/// Adds the products of part s. pa: rows of a; pq, ps, pz: the tile's words of q, scale and zero.
void add_part(tv_ref_f32 pa[ROWS], tv_ref_f32 pq, tv_ref_f32 ps, tv_ref_f32 pz, uint s,
              inout SUM acc[ROWS]) {
  const uint group = GROUP == 0u ? 0u : (A_0 + s * PART) / max(GROUP, 1u);
  const vec2 zero = zero_of(pz, group);
  vec2 part[ROWS];
  [[unroll]] for (uint i = 0u; i < ROWS; i++) part[i] = vec2(0.0);
  SIMD_UNROLL for (uint w = 0u; w < PART / PER; w++) {
    const uvec2 words = words_at(pq, s * (PART / PER) + w);
    [[unroll]] for (uint k4 = 0u; k4 < PER / 4u; k4++) {
      vec4 a[ROWS];
      [[unroll]] for (uint i = 0u; i < ROWS; i++) {
        a[i] = simd_vec4(pa[i], (s * PART + w * PER) / 4u + k4);
      }
      [[unroll]] for (uint k = 0u; k < 4u; k++) {
        vec2 b = elements_of(words, 4u * k4 + k);
        if (CODES == 0 && (ZERO_BITS != 0u || BITS == 4u)) b -= zero;
        [[unroll]] for (uint i = 0u; i < ROWS; i++) part[i] = fma(vec2(a[i][k]), b, part[i]);
      }
    }
  }
#if INTEGER
  [[unroll]] for (uint i = 0u; i < ROWS; i++) acc[i] += ivec2(part[i]);
#else
  const vec2 scale = scale_of(ps, group);
  [[unroll]] for (uint i = 0u; i < ROWS; i++) acc[i] = fma(part[i], scale, acc[i]);
#endif
}

#if ADD || !LAST
/// Row i of the tile in c.
tv_ref_f32 row_of_c(uint tm, uint tn, uint z, uint i) {
  return simd_at(c_ptr, OF_BATCH(z, C_Z) + (tm * ROWS + i) * C_M + tn * (2u * LANES));
}
#endif

simd_held store_row(uint tm, uint tn, uint z, uint i, SUM sums) {
#if LAST
  const uint row = OF_BATCH(z, m_last + 1u) + min(tm * ROWS + i, m_last);
  const uint n = min(tn * (2u * LANES), cols - 2u * LANES);
  return y_simd_store2(row * cols + n, y_T(sums.x), y_T(sums.y));
#else
  return simd_store2(row_of_c(tm, tn, z, i), SUM_BITS(sums.x), SUM_BITS(sums.y));
#endif
}

void main() {
  const uint tm = UNIFORM(gl_WorkGroupID.x), tn = UNIFORM(gl_WorkGroupID.y);
  const uint z = BATCHED != 0 ? UNIFORM(gl_WorkGroupID.z) : 0u;
  tv_ref_f32 pa[ROWS];
  [[unroll]] for (uint i = 0u; i < ROWS; i++) {
    pa[i] = simd_at(a_ptr, OF_BATCH(z, a_z) + min(tm * ROWS + i, m_last) * a_m + A_0);
  }
  tv_ref_f32 pq = simd_at(tv_ref_f32(q_ptr),
      OF_BATCH(z, q_z) + tn * q_tile + A_0 / PER * (2u * LANES));
#if SCALE_BITS
  tv_ref_f32 ps = simd_at(tv_ref_f32(scale_ptr), tn * scale_tile);
#else
  tv_ref_f32 ps = pq;
#endif
#if ZERO_BITS
  tv_ref_f32 pz = simd_at(tv_ref_f32(zero_ptr), tn * zero_tile);
#else
  tv_ref_f32 pz = pq;
#endif

  SUM acc[ROWS];
  [[unroll]] for (uint i = 0u; i < ROWS; i++) acc[i] = SUM(0);
  SIMD_UNROLL for (uint s = 0u; s < PARTS; s++) add_part(pa, pq, ps, pz, s, acc);
  SIMD_WAIT  // loads below, in one block with those above, would become loads of elements
#if ADD
  [[unroll]] for (uint i = 0u; i < ROWS; i++) {
    tv_ref_f32 pc = row_of_c(tm, tn, z, i);
    const SUM before = BITS_SUM(vec2(simd_load(pc), simd_load(simd_at(pc, LANES))));
    acc[i] += mix(before, SUM(0), bvec2(A_0 == 0u));
  }
#endif
  simd_held held[ROWS];
  [[unroll]] for (uint i = 0u; i < ROWS; i++) held[i] = store_row(tm, tn, z, i, acc[i]);
  SIMD_WAIT
#if LAST
  [[unroll]] for (uint i = 0u; i < ROWS; i++) y_simd_release(held[i]);
#else
  [[unroll]] for (uint i = 0u; i < ROWS; i++) simd_release(held[i]);
#endif
}
