// Combines one value per invocation of a workgroup into one, in a fixed order; every invocation
// gets the result. LOCAL_X is a power of two. To be called in uniform control flow.
//
// SUBGROUP: the workgroup is one subgroup, values go through shuffles. HYBRID: it is several full
// subgroups, whose results meet in shared memory. Else everything does. TV_TREE's store is
// `shared T name[LOCAL_X]`, which SUBGROUP does not need. A kernel whose values are structs defines
// TV_SHUFFLE(v, mask).

#ifndef TV_SHUFFLE
#define TV_SHUFFLE(v, mask) subgroupShuffleXor(v, mask)
#endif

#if SUBGROUP
#define TV_TREE(store, v, COMBINE)                                                              \
  for (uint m_ = LOCAL_X / 2u; m_ > 0u; m_ >>= 1u) v = COMBINE(v, TV_SHUFFLE(v, m_));
#elif HYBRID
#define TV_TREE(store, v, COMBINE)                                                              \
  {                                                                                             \
    for (uint m_ = gl_SubgroupSize / 2u; m_ > 0u; m_ >>= 1u) v = COMBINE(v, TV_SHUFFLE(v, m_)); \
    if (gl_SubgroupInvocationID == 0u) store[gl_SubgroupID] = v;                                \
    barrier();                                                                                  \
    v = store[0];                                                                               \
    for (uint s_ = 1u; s_ < gl_NumSubgroups; ++s_) v = COMBINE(v, store[s_]);                   \
    barrier();                                                                                  \
  }
#else
#define TV_TREE(store, v, COMBINE)                                                              \
  {                                                                                             \
    const uint t_ = gl_LocalInvocationID.x;                                                     \
    store[t_] = v;                                                                              \
    barrier();                                                                                  \
    for (uint m_ = LOCAL_X / 2u; m_ > 0u; m_ >>= 1u) {                                          \
      if (t_ < m_) store[t_] = COMBINE(store[t_], store[t_ + m_]);                              \
      barrier();                                                                                \
    }                                                                                           \
    v = store[0];                                                                               \
    barrier();                                                                                  \
  }
#endif
