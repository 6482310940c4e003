// Transforms of N elements in shared memory, LINES a workgroup, all passes (PASSES) at once. Lines
// as in fft_line.glsl, `lines` of them: outer · inner, the inner number fastest. N = n.

#include "fft.glsl"
#include "fft_line.glsl"

shared vec2 held_[2][LINES * N];

// Butterflies of R elements where DONE are joined, from half FROM of the memory to half TO.
#define PASS(R, DONE, FROM, TO)                                                     \
  for (uint e = gl_LocalInvocationID.x; e < LINES * (N / R); e += LOCAL_X) {        \
    const uint l = e / (N / R), j = e - l * (N / R), k = j % DONE;                  \
    vec2 v[R];                                                                      \
    for (uint q = 0u; q < R; ++q) v[q] = held_[FROM][l * N + j + q * (N / R)];      \
    for (uint q = 1u; q < R; ++q) v[q] = tv_cmul(v[q], tv_root(q * k * (N / R / DONE))); \
    tv_butterfly(v);                                                                \
    const uint first = l * N + (j - k) * R + k;                                     \
    for (uint q = 0u; q < R; ++q) held_[TO][first + q * DONE] = v[q];               \
  }                                                                                 \
  barrier();

void main() {
  const uint t = gl_LocalInvocationID.x, begin = tv_group() * LINES;
  for (uint e = t; e < LINES * N; e += LOCAL_X) {
    const uint l = e / N, line = begin + l, o = line / inner;
    if (line < lines) held_[0][e] = tv_read(o, e - l * N, line - o * inner);
  }
  barrier();
  PASSES
  for (uint e = t; e < LINES * N; e += LOCAL_X) {
    const uint l = e / N, line = begin + l, o = line / inner;
    if (line < lines) tv_write(o, e - l * N, line - o * inner, held_[LAST][e]);
  }
}
