// Kernels that walk rows: which row an invocation has, and how a row's invocations combine a value
// each into one, in a fixed order; each of them gets the result. To be called in uniform control
// flow.
//
// PER_INVOCATION: an invocation has a row. SUBGROUP: a subgroup of ROW_LANES invocations has one,
// ROWS of them a workgroup; values go through shuffles. Else the workgroup has one, LOCAL_X a power
// of two. HYBRID: it is several full subgroups, whose results meet in shared memory.
// TV_WORKGROUP_REDUCE's store is `shared T name[LOCAL_X]`, which SUBGROUP does not need. A kernel
// whose values are structs defines TV_SHUFFLE(v, mask).

#ifndef TV_SHUFFLE
#define TV_SHUFFLE(v, mask) subgroupShuffleXor(v, mask)
#endif

// Declares the row, and that this invocation has its elements first, first + step, ….
#if PER_INVOCATION
#define TV_ROW                                                                     \
  const uint row = tv_group() * LOCAL_X + gl_LocalInvocationID.x, first = 0u, step = 1u;
#elif SUBGROUP
#define TV_ROW                                                                     \
  const uint row = tv_group() * ROWS + gl_SubgroupID, first = gl_SubgroupInvocationID, \
             step = ROW_LANES;
#else
#define TV_ROW const uint row = tv_group(), first = gl_LocalInvocationID.x, step = LOCAL_X;
#endif

#if SUBGROUP
#define TV_WORKGROUP_REDUCE(store, v, COMBINE)                                                  \
  for (uint m_ = ROW_LANES / 2u; m_ > 0u; m_ >>= 1u) v = COMBINE(v, TV_SHUFFLE(v, m_));
#elif HYBRID
#define TV_WORKGROUP_REDUCE(store, v, COMBINE)                                                  \
  {                                                                                             \
    for (uint m_ = gl_SubgroupSize / 2u; m_ > 0u; m_ >>= 1u) v = COMBINE(v, TV_SHUFFLE(v, m_)); \
    if (gl_SubgroupInvocationID == 0u) store[gl_SubgroupID] = v;                                \
    barrier();                                                                                  \
    v = store[0];                                                                               \
    for (uint s_ = 1u; s_ < gl_NumSubgroups; ++s_) v = COMBINE(v, store[s_]);                   \
    barrier();                                                                                  \
  }
#else
#define TV_WORKGROUP_REDUCE(store, v, COMBINE)                                                  \
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
