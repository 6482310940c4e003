// avg_pool.comp on CPU drivers (simd.glsl): the rows of a window are added up first, as far as a
// tile of LANES columns needs them (span.glsl), whose lanes then add up what is theirs.
//
// Rows are those of row_tiles.glsl. Defines: those of avg_pool.comp, span.glsl and row_tiles.glsl,
// WINDOW_ROWS (the most rows of a window).

#include "row_tiles.glsl"
#include "span.glsl"

/// A window along one dimension: elements from … to - 1, `counted` with the padding.
struct Range {
  int from, to, counted;
};

#if ADAPTIVE
// A division of integers is a loop over the lanes; these numbers are small enough for floats.
int quotient(uint n, uint d) { return int((float(n) + 0.5) / float(d)); }

Range range_of(uint o, uint size, uint out_size) {
  const int from = quotient(o * size, out_size),
            to = quotient((o + 1u) * size + out_size - 1u, out_size);
  return Range(from, to, to - from);
}
#define ROWS_OF(o) range_of(o, height, out_height)
#define COLUMNS_OF(o) range_of(o, width, out_width)
#else
Range range_of(uint o, uint size, uint kernel, uint stride, uint pad) {
  const int begin = int(o * stride) - int(pad);
  const int end = min(begin + int(kernel), int(size + pad));
  const int from = max(begin, 0), to = min(end, int(size));
#if INCLUDE_PAD
  return Range(from, to, end - begin);
#else
  return Range(from, to, to - from);
#endif
}
#define ROWS_OF(o) range_of(o, height, kernel_h, stride_h, pad_h)
#define COLUMNS_OF(o) range_of(o, width, kernel_w, stride_w, pad_w)
#endif

/// The sums of a window's rows, for the columns from `start` on.
Span rows_of(uint plane, Range rows, uint start) {
  Span sum = span_zero();
  [[unroll]] for (uint i = 0u; i < WINDOW_ROWS; i++) {
    const int row = rows.from + int(i);
    const uint at = min(uint(row), height - 1u);
    span_add_if(sum, span_load((plane * height + at) * width, start, width), row < rows.to);
  }
  return sum;
}

float mean_of(Span sum, uint start, Range rows, Range columns) {
  const uint count = uint(max(columns.to - columns.from, 0));
  const float total = span_sum(sum, uint(columns.from) - start, count);
  int area = rows.counted * columns.counted;
#if !ADAPTIVE
  area = divisor != 0 ? divisor : area;
#endif
  return mix(0.0, tv_div(total, float(area)), rows.from < rows.to && count > 0u);
}

void main() {
  const RowTile t = row_tile();
  float v[ROWS][HALVES];
  [[unroll]] for (uint h = 0u; h < HALVES; h++) {
    const Range columns = COLUMNS_OF(lane_column(t, h));
    const uint start = span_start(uint(COLUMNS_OF(column_of_tile(t, h)).from), width);
    [[unroll]] for (uint r = 0u; r < ROWS; r++) {
      const Range rows = ROWS_OF(row_of_tile(t, r));
      v[r][h] = mean_of(rows_of(t.z, rows, start), start, rows, columns);
    }
  }
  store_rows(t, v);
}
