// What kernels of products of few rows share (few_rows.h): macros whose loops are written out,
// because compilers keep a loop whose body is long, whatever its hint says, and what it indexes in
// memory; and places of results. ROWS x COLS results a subgroup, SUBGROUPS of which make a
// workgroup, WK share steps of k.

#define FOR(i, n) [[unroll]] for (uint i = 0u; i < uint(n); i++)

/// what(0, x); what(1, x); … for each column.
#if COLS == 1
#define EACH_COLUMN(what, x) what(0, x);
#elif COLS == 2
#define EACH_COLUMN(what, x) what(0, x); what(1, x);
#else
#define EACH_COLUMN(what, x) what(0, x); what(1, x); what(2, x); what(3, x);
#endif

/// what(0, x); what(1, x); … for each row.
#define TWO_ROWS(what, r, x) what(r, x); what(r + 1, x);
#define FOUR_ROWS(what, r, x) TWO_ROWS(what, r, x) TWO_ROWS(what, r + 2, x)
#define EIGHT_ROWS(what, r, x) FOUR_ROWS(what, r, x) FOUR_ROWS(what, r + 4, x)
#if ROWS == 1
#define EACH_ROW(what, x) what(0, x);
#elif ROWS == 2
#define EACH_ROW(what, x) TWO_ROWS(what, 0, x)
#elif ROWS == 4
#define EACH_ROW(what, x) FOUR_ROWS(what, 0, x)
#elif ROWS == 8
#define EACH_ROW(what, x) EIGHT_ROWS(what, 0, x)
#else
#define EACH_ROW(what, x) EIGHT_ROWS(what, 0, x) EIGHT_ROWS(what, 8, x)
#endif

/// what(c, r); for each result of a subgroup.
#define ROW_OF_RESULTS(r, what) EACH_COLUMN(what, r)
#define EACH_RESULT(what) EACH_ROW(ROW_OF_RESULTS, what)

// A workgroup has so many subtiles of TILE results, each summed by WK subgroups.
const uint SUBTILES = SUBGROUPS / WK, TILE = ROWS * COLS;

/// Result i of the SUBTILES * TILE of a workgroup, neighbours in a row first: number `e` of those
/// of the WK subgroups that have subtile `subtile`, at (m, n).
struct Place { uint subtile, e, m, n; };
Place place_of(uint i) {
  Place p;
  p.subtile = i / COLS % SUBTILES;
  p.e = i / (SUBTILES * COLS) * COLS + i % COLS;
  p.m = gl_WorkGroupID.y * ROWS + p.e / COLS;
  p.n = (gl_WorkGroupID.x * SUBTILES + p.subtile) * COLS + p.e % COLS;
  return p;
}
