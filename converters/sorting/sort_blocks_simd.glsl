// Vectors of blocks of keys and positions (sort_simd.glsl), in memory as they are in order.

#include "sort_simd.glsl"

#define BITS(p) tv_ref_f32(p)

/// a && b without a branch, behind which lavapipe takes nothing for uniform.
bool both(bool a, bool b) { return (uint(a) & uint(b)) != 0u; }

uint bits_at(tv_ref_i32 p, uint i) { return floatBitsToUint(simd_load(simd_at(BITS(p), i))); }

void load_pairs(uint from, bool exists, out KEY k, out uint i) {
#if INT64_KEY
  const KEY key = keys_raw(from + gl_SubgroupInvocationID);
#else
  const KEY key = bits_at(keys_ptr, from);
#endif
  const uint at = bits_at(at_ptr, from);
  k = exists ? key : KEY_MOST;
  i = exists ? at : 0xffffffffu;
}

/// Two neighbouring vectors on their way to memory.
struct Stored {
  simd_held keys, at;
  uint to;
};

Stored store_pairs(uint to, KEY k, uint i, KEY l, uint j) {
  Stored s;
  s.to = to;
#if !INT64_KEY
  s.keys = simd_store2(simd_at(BITS(keys_ptr), to), uintBitsToFloat(k), uintBitsToFloat(l));
#endif
  s.at = simd_store2(simd_at(BITS(at_ptr), to), uintBitsToFloat(i), uintBitsToFloat(j));
  return s;
}

void release_pairs(Stored s, KEY k, KEY l) {
#if INT64_KEY
  keys_raw_store(s.to + gl_SubgroupInvocationID, k);
  keys_raw_store(s.to + LANES + gl_SubgroupInvocationID, l);
#else
  simd_release(s.keys);
#endif
  simd_release(s.at);
}
