// The loads of conv_matrix.comp, included in its main: where the columns of an invocation are, and
//   FETCH_X(raw, t): its pixels of stage t into registers raw[PX][NC].
// `to`: where they go in shared memory (conv_matrix_stash.glsl).

  Column column[PX];
  FOR(i, PX) column[i] = column_of(g, c0 + FIRST_COLUMN + i * PX_STEP);
  const uint first_chunk = wk * share * CHUNKS + FIRST_CHUNK;
  const uint to = wk * STAGES * STAGE + FIRST_COLUMN * LD + FIRST_CHUNK;
#define FETCH_X(raw, t) FOR(i, PX) FOR(c, NC) \
    raw[i][c] = gather(first_chunk + (t) * CHUNKS + c * EACH, column[i]);
