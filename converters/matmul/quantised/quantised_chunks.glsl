// Runs of 16 elements of a quantised matrix (quantised_words.glsl) as chunks that matrix units'
// kernels load (matrix.glsl): their numbers in float32, rounded once to what the units multiply.
// SCALED_SUMS: a row has one scale, which multiplies the sums in the end; elements less their zero
// points are then exact.

#if BITS == 4
#define RunWords uvec2
#define run_words two_words
#else
#define RunWords uvec4
#define run_words four_words
#endif
struct Run { RunWords words; float zero, scale; };

/// Elements k … k + 15 of row n; zeros past the last.
Run load_run(uint n, uint k) {
  const uint last = k_count - 16u, from = min(k, last);
  Run r;
#if WHOLE_ROWS
  const uint group = 0u;
#else
  const uint group = from / group_steps;
#endif
  r.words = run_words(n, from);
  r.zero = quantised_zero(n, group);
#if SCALED_SUMS
  r.scale = 1.0;
#else
  r.scale = quantised_scale(n, group);
#endif
#if !WHOLE_K
  if (k > last) r.scale = 0.0;
#endif
  return r;
}

/// The first or second half of a run.
Chunk chunk_of(Run r, uint h) {
  vec4 v[2];
#if BITS == 4
  unpack_word(r.words[h], r.zero, v);
#else
  vec4 w[FOURS];
  unpack_word(r.words[2u * h], r.zero, w);
  v[0] = w[0];
  unpack_word(r.words[2u * h + 1u], r.zero, w);
  v[1] = w[0];
#endif
  v[0] *= r.scale;
  v[1] *= r.scale;
#if FLOATS
  return Chunk(v[0], v[1]);
#else
  return uvec4(TO_16X4(v[0]), TO_16X4(v[1]));
#endif
}
