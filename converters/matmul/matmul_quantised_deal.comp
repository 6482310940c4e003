// A matrix of 4 bits in the order in which invocations hold 16x16 fragments (matrix.glsl) of its rows
// (matmul_quantised_direct.comp). y: [n_count / 16][k / 64][32 invocations] four words; zeros past the last
// row. Invocation (g, c) = (lane / 4, lane % 4) has 32 steps of k of row g, of row g + 8, and the next 32
// of both: elements 8 j + 2 c and 8 j + 2 c + 1 in bits 4 j and 16 + 4 j of a word. One an invocation of
// this.

void main() {
  const uint id = tv_group() * LOCAL_X + gl_LocalInvocationID.x;
  if (id >= dealt) return;
  const uint lane = id % 32u, step = id / 32u % steps, block = id / 32u / steps;
  uvec4 v = uvec4(0u);
  [[unroll]] for (uint i = 0u; i < 4u; i++) {
    const uint n = block * 16u + i % 2u * 8u + lane / 4u;
    if (n < n_count) {
      const uint from = (n * steps + step) * 32u + i / 2u * 16u + lane % 4u;
      [[unroll]] for (uint j = 0u; j < 4u; j++) {
        const uint both = uint(q_raw(from + 4u * j));
        v[i] |= (both & 15u) << (4u * j) | (both >> 4) << (16u + 4u * j);
      }
    }
  }
  tv_ref_u32x4(y_ptr).v[id] = v;
}
