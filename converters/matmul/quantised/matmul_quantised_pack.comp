// A quantised matrix in the order in which kernels of matrix units (matrix.glsl) load it: runs of
// 16 along k, those of 16 rows side by side, so that what a tile reads lies together. y: [n_count /
// 16][k / 16][16] runs of RUN words; zeros past the last row. One run an invocation.

#if RUN == 4
#define Words uvec4
#define words_ref tv_ref_u32x4
#else
#define Words uvec2
#define words_ref tv_ref_u32x2
#endif

void main() {
  const uint id = tv_group() * LOCAL_X + gl_LocalInvocationID.x;
  if (id >= runs) return;
  const uint line = id / 16u, n = line / steps * 16u + id % 16u;
  Words v = Words(0u);
  if (n < n_count) {
    uint64_t at = uint64_t(q_ptr) + uint64_t(n * steps + line % steps) * (RUN * 4u);
#if TV_CHECK
    at = tv_check_ptr(at, RUN * 4u);
#endif
    v = words_ref(at).v[0];
  }
  words_ref(y_ptr).v[id] = v;
}
