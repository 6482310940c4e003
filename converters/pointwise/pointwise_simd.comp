// out_k[i] = program_k(in_0[i], in_1[i], …) over `numel` elements, a multiple of 2 LANES, on CPU
// drivers (simd.glsl). A workgroup computes RUNS times 2 LANES neighbours; the last one moves back
// to the end. Grid: (ceil(numel / (2 LANES RUNS)), 1, 1).

const uint HELD = min(RUNS, 8u);  // stores that wait together

void main() {
  const uint run = RUNS * 2u * LANES;
  const uint first = min(simd_uniform(gl_WorkGroupID.x) * run, numel - run);
  [[unroll]] for (uint k = 0u; k < RUNS; k += HELD) {
    simd_held held[HELD][TV_HELD];
    [[unroll]] for (uint j = 0u; j < HELD; j++) {
      tv_pointwise_simd(first + (k + j) * (2u * LANES), held[j]);
    }
    SIMD_WAIT
    [[unroll]] for (uint j = 0u; j < HELD; j++) tv_pointwise_release(held[j]);
  }
}
