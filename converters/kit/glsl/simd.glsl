// Kernels for CPU drivers: one subgroup is one vector register and a workgroup is one subgroup.
//
// lavapipe takes an address for uniform (one scalar load) only where it is made from constants and
// push constants, outside of all control flow. Everything else, and every store, is a loop over the
// lanes that takes as long as 100 multiplications and additions of whole vectors.
//
// No pointer is carried from one iteration of a loop to the next: Mesa 25 (25.0.7, 25.2.8) forgets
// its steps where loops are nested. Addresses are made from the loops' counters.

/// `id`, read through the push constants, so that addresses made from it are uniform.
uint simd_uniform_small(uint id) {  // id < 512
  return tv_p.table[id & 7u] | tv_p.table[id >> 3 & 7u] << 3 | tv_p.table[id >> 6 & 7u] << 6;
}
uint simd_uniform_large(uint id) {  // id < 2^27
  return simd_uniform_small(id) | simd_uniform_small(id >> 9) << 9 |
         simd_uniform_small(id >> 18) << 18;
}
uint simd_uniform(uint id) {  // id < 2^18; in a part of a larger grid, id < 2^27
#if SIMD_LARGE_GRID
  return simd_uniform_large(id);
#else
  return simd_uniform_small(id) | simd_uniform_small(id >> 9) << 9;
#endif
}

// Mesa 23 and later read uniform addresses inside of loops at once, and take minutes to compile
// what is unrolled: loops of many stay loops there. So they do in debug builds, which check each
// access: a checked address is not uniform.
//
// Mesa compares a read with all those before it, to take what they read, and so for a second or
// two where thousands were unrolled. It leaves volatile ones alone, and compiles them alike.
#if TV_CHECK || SIMD_LOOPS
#define SIMD_UNROLL
#define SIMD_READ
#else
#define SIMD_UNROLL [[unroll]]
#define SIMD_READ volatile
#endif
#if TV_CHECK
#define SIMD_CHECKED(p, bytes) tv_check_ptr(uint64_t(p), bytes)
#else
#define SIMD_CHECKED(p, bytes) uint64_t(p)
#endif

layout(buffer_reference, scalar, buffer_reference_align = 4) buffer simd_ref_vec4 {
  SIMD_READ vec4 v[];
};
layout(buffer_reference, scalar, buffer_reference_align = 4) buffer simd_ref_u64 { uint64_t v[]; };

tv_ref_f32 simd_at(tv_ref_f32 p, uint elements) {
  return tv_ref_f32(uint64_t(p) + uint64_t(elements) * 4ul);
}

/// Elements 4 i … 4 i + 3 from p, of any alignment.
vec4 simd_vec4(tv_ref_f32 p, uint i) {
#if TV_CHECK
  return simd_ref_vec4(SIMD_CHECKED(simd_at(p, 4u * i), 16u)).v[0];
#else
  return simd_ref_vec4(p).v[i];
#endif
}

/// Element i, the same for every lane.
float simd_scalar(tv_ref_f32 p, uint i) {
#if TV_CHECK
  return tv_ref_f32(SIMD_CHECKED(simd_at(p, i), 4u)).v[0];
#else
  return p.v[i];
#endif
}

/// Lane i gets p.v[i]. For a uniform p LLVM folds this into one vector load.
float simd_load(tv_ref_f32 p) {
#if TV_CHECK
  return tv_ref_f32(SIMD_CHECKED(simd_at(p, gl_SubgroupInvocationID), 4u)).v[0];
#endif
  float r = 0.0;
  [[unroll]] for (uint i = 0u; i < LANES / 4u; i++) {
    const vec4 x = simd_vec4(p, i);
    const uint lane = gl_SubgroupInvocationID - 4u * i;
    r = mix(r, x.x, lane == 0u);
    r = mix(r, x.y, lane == 1u);
    r = mix(r, x.z, lane == 2u);
    r = mix(r, x.w, lane == 3u);
  }
  return r;
}

/// The sum and the largest over all lanes. Written out: a shuffle by a constant is one instruction,
/// any other a loop over the lanes.
float simd_sum(float v) {
  if (LANES > 8u) v += subgroupShuffleXor(v, 8u);
  v += subgroupShuffleXor(v, 4u);
  v += subgroupShuffleXor(v, 2u);
  return v + subgroupShuffleXor(v, 1u);
}
float simd_max(float v) {
  if (LANES > 8u) v = max(v, subgroupShuffleXor(v, 8u));
  v = max(v, subgroupShuffleXor(v, 4u));
  v = max(v, subgroupShuffleXor(v, 2u));
  return max(v, subgroupShuffleXor(v, 1u));
}

/// A store of 2 LANES floats that is ready: lane i's address and its two floats.
struct simd_held {
  uint64_t at, pair;
};

/// Lane i will store a to p.v[i] and b to p.v[LANES + i]: two lanes' floats in one 64-bit store,
/// which halves the loop over the lanes.
simd_held simd_store2(tv_ref_f32 p, float a, float b) {
  const uint lane = gl_SubgroupInvocationID, even = (lane * 2u) & (LANES - 1u);
  const float a0 = subgroupShuffle(a, even), a1 = subgroupShuffle(a, even + 1u);
  const float b0 = subgroupShuffle(b, even), b1 = subgroupShuffle(b, even + 1u);
  const bool low = lane < LANES / 2u;
  const uvec2 pair = floatBitsToUint(vec2(mix(b0, a0, low), mix(b1, a1, low)));
  // Through the table the lane's number is no constant, which the loop would keep in a register.
  const uint64_t at = uint64_t(p) + uint64_t(simd_uniform_small(lane) * 8u);
  return simd_held(SIMD_CHECKED(at, 8u), packUint2x32(pair));
}

/// Lane i will store v to the i-th 64 bits from p.
simd_held simd_store_u64(uint64_t p, uint64_t v) {
  const uint lane = simd_uniform_small(gl_SubgroupInvocationID);
  return simd_held(SIMD_CHECKED(p + uint64_t(lane * 8u), 8u), v);
}

/// Stands between simd_store2 and simd_release, in no loop and no branch.
///
/// The loop over the lanes indexes vectors by its counter. LLVM writes a vector that lies in a
/// register to the stack in every iteration, which takes four times as long as the rest of the
/// loop. A barrier leaves the invocations' function, with the vectors in memory, where the loop
/// then finds them.
#if TV_CHECK || SIMD_LOOPS
#define SIMD_WAIT
#else
#define SIMD_WAIT barrier();
#endif

void simd_release(simd_held h) { simd_ref_u64(h.at).v[0] = h.pair; }
