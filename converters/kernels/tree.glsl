// Combines one value per invocation of a workgroup into one, in a fixed order; every invocation
// gets the result. LOCAL_X is a power of two.
//
// SUBGROUP: the workgroup is one subgroup; the exchange goes through shuffles. Else TV_TREE needs
// `shared T name[LOCAL_X]`. To be called in uniform control flow.

#if SUBGROUP
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require
#define TV_TREE(store, v, COMBINE)                              \
  for (uint m_ = LOCAL_X / 2u; m_ > 0u; m_ >>= 1u) {            \
    v = COMBINE(v, subgroupShuffleXor(v, m_));                  \
  }
#else
#define TV_TREE(store, v, COMBINE)                                              \
  {                                                                             \
    const uint t_ = gl_LocalInvocationID.x;                                     \
    store[t_] = v;                                                              \
    barrier();                                                                  \
    for (uint m_ = LOCAL_X / 2u; m_ > 0u; m_ >>= 1u) {                          \
      if (t_ < m_) store[t_] = COMBINE(store[t_], store[t_ + m_]);              \
      barrier();                                                                \
    }                                                                           \
    v = store[0];                                                               \
    barrier();                                                                  \
  }
#endif
