// upsample.comp on CPU drivers (simd.glsl): an output row is first put together from the rows of x
// that it looks at, as far as a tile of LANES columns needs them (span.glsl), whose lanes then take
// what they look at.
//
// Rows are those of row_tiles.glsl: `lines` is out_1, or with DIMS 1 the number of all rows, and a
// plane is one of y's. Defines: those of upsample_taps.glsl, span.glsl and row_tiles.glsl, DIMS,
// COPY.

#include "upsample_taps.glsl"
#include "row_tiles.glsl"
#include "span.glsl"

/// Where the span of a tile's columns begins, and what its lanes look at, counted from there.
struct Columns {
  uint start;
  Taps taps;
};

Columns columns_of(uint first, uint own, float pace) {
  const uint start = span_start(taps_of(first, in_0, pace).at[0], in_0);
  Columns c = Columns(start, taps_of(own, in_0, pace));
  [[unroll]] for (int a = 0; a < TAPS; ++a) c.taps.at[a] -= start;
  return c;
}

void add_row(inout Span sum, uint row, uint start, float weight) {
#if COPY
  sum = span_load(row * in_0, start, in_0);
#else
  span_add(sum, span_load(row * in_0, start, in_0), weight);
#endif
}

#if DIMS > 1
void add_area(inout Span sum, uint area, Taps t1, uint start, float weight) {
  [[unroll]] for (int b = 0; b < TAPS; ++b) {
    add_row(sum, area * in_1 + t1.at[b], start, weight * t1.weight[b]);
  }
}
#endif

/// The span of row `o` of plane `plane` of the result.
Span row_of(uint plane, uint o, uint start) {
  Span sum = span_zero();
#if DIMS == 1
  add_row(sum, o, start, 1.0);
#else
  const Taps t1 = taps_of(o, in_1, step_of(in_1, out_1, scale_1));
#if DIMS == 2
  add_area(sum, plane, t1, start, 1.0);
#else
  const uint volume = tile_quotient(plane, out_2);
  const Taps t2 = taps_of(plane - volume * out_2, in_2, step_of(in_2, out_2, scale_2));
  [[unroll]] for (int c = 0; c < TAPS; ++c) {
    add_area(sum, volume * in_2 + t2.at[c], t1, start, t2.weight[c]);
  }
#endif
#endif
  return sum;
}

float value_of(Span row, Taps t) {
#if COPY
  return span_at(row, t.at[0]);
#else
  float sum = 0.0;
  [[unroll]] for (int a = 0; a < TAPS; ++a) sum += t.weight[a] * span_at(row, t.at[a]);
  return sum;
#endif
}

void main() {
  const RowTile t = row_tile();
  const float pace = step_of(in_0, out_0, scale_0);
  float v[ROWS][HALVES];
  [[unroll]] for (uint h = 0u; h < HALVES; h++) {
    const Columns columns = columns_of(column_of_tile(t, h), lane_column(t, h), pace);
    [[unroll]] for (uint r = 0u; r < ROWS; r++) {
      v[r][h] = value_of(row_of(t.z, row_of_tile(t, r), columns.start), columns.taps);
    }
  }
  store_rows(t, v);
}
