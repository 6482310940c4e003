// y = (x - mean) * rstd * weight + bias over rows of `count` neighbours: layer and group norm; with
// RMS, y = x * rstd * weight. rstd = 1 / sqrt(mean of (x - mean)² + eps), the mean subtracted first
// so that nothing cancels.
//
// weight and bias: one per column (layer norm), or, with CHANNELS, one per channel: row r holds the
// channels (r % groups) * group_channels …, `spatial` elements each (group norm).
// Defines: RMS, CHANNELS, WEIGHT, BIAS, MEAN and RSTD (whether these results are wanted).
// KEEP: an invocation keeps so many vectors of its row in registers (count and spatial are
// multiples of 4), else 0.
// Grid: as workgroup_reduction.glsl shares `rows` rows out.

#include "workgroup_reduction.glsl"

#if !PER_INVOCATION && !SUBGROUP
shared float partial_[LOCAL_X];
#endif

float plus(float a, float b) { return a + b; }

/// The sum of v over the invocations of a row; each of them gets it.
float sum_of_row(float v) {
#if !PER_INVOCATION
  TV_WORKGROUP_REDUCE(partial_, v, plus)
#endif
  return v;
}

/// An invocation's elements (KEEP: vectors of four) of a row that begins at `start`: first, first +
/// step, ….
struct Part {
  uint start, first, step;
};

#if KEEP
// this invocation's vectors; what they begin with is column_of_kept(part, k) of the row
vec4 kept[KEEP];

uint column_of_kept(const Part part, uint k) { return 4u * (part.first + k * part.step); }

void load(const Part part) {
  [[unroll]] for (uint k = 0u; k < KEEP; k++) {
    const uint c = column_of_kept(part, k);
    kept[k] = vec4(0.0);
    if (c < count) kept[k] = x_load4(part.start + c);
  }
}

float sum_of(const Part part) {
  float sum = 0.0;
  [[unroll]] for (uint k = 0u; k < KEEP; k++) {
    sum += (kept[k].x + kept[k].y) + (kept[k].z + kept[k].w);
  }
  return sum;
}

/// Subtracts `center`.
float sum_of_squares(const Part part, float center) {
  float sum = 0.0;
  [[unroll]] for (uint k = 0u; k < KEEP; k++) {
    if (column_of_kept(part, k) < count) {
      kept[k] -= center;
      sum += dot(kept[k], kept[k]);
    }
  }
  return sum;
}
#else
void load(const Part part) {}

// Blocks of 64 keep the rounding error of a long sum small.
float sum_of(const Part part) {
  float sum = 0.0;
  for (uint c = part.first; c < count;) {
    const uint stop = min(count, c + 64u * part.step);
    float block = 0.0;
    for (; c < stop; c += part.step) block += x_load(part.start + c);
    sum += block;
  }
  return sum;
}

float sum_of_squares(const Part part, float center) {
  float sum = 0.0;
  for (uint c = part.first; c < count;) {
    const uint stop = min(count, c + 64u * part.step);
    float block = 0.0;
    for (; c < stop; c += part.step) {
      const float d = x_load(part.start + c) - center;
      block = fma(d, d, block);
    }
    sum += block;
  }
  return sum;
}
#endif

// What weight and bias of column c of row `row` are numbered by, and loads of them: four columns
// that KEEP has at once are of one channel.
#if CHANNELS
#define PLACE_OF_COLUMN(row, c) ((row % groups) * group_channels + c / spatial)
#define WEIGHTS(i) w_load(i)
#define BIASES(i) b_load(i)
#elif KEEP
#define PLACE_OF_COLUMN(row, c) c
#define WEIGHTS(i) w_load4(i)
#define BIASES(i) b_load4(i)
#else
#define PLACE_OF_COLUMN(row, c) c
#define WEIGHTS(i) w_load(i)
#define BIASES(i) b_load(i)
#endif
#if KEEP
#define Columns vec4
#else
#define Columns float
#endif

/// Columns c … of the row, already times 1 / sqrt(…), with their weight and bias.
Columns weighted(Columns r, uint row, uint c) {
  const uint place = PLACE_OF_COLUMN(row, c);
#if WEIGHT
  r *= WEIGHTS(place);
#endif
#if BIAS
  r += BIASES(place);
#endif
  return r;
}

void store(const Part part, uint row, float center, float inverse) {
#if KEEP
  [[unroll]] for (uint k = 0u; k < KEEP; k++) {
    const uint c = column_of_kept(part, k);
    if (c < count) y_store4(part.start + c, weighted(kept[k] * inverse, row, c));
  }
#else
  for (uint c = part.first; c < count; c += part.step) {
    y_store(part.start + c, weighted((x_load(part.start + c) - center) * inverse, row, c));
  }
#endif
}

void store_statistics(uint row, float center, float inverse) {
#if MEAN
  mean_store(row, center);
#endif
#if RSTD
  rstd_store(row, inverse);
#endif
}

void main() {
  TV_ROW
  if (row >= rows) return;
  const Part part = Part(row * count, first, step);
  load(part);
#if RMS
  const float center = 0.0;
#else
  const float center = tv_div(sum_of_row(sum_of(part)), float(count));
#endif
  const float spread = sum_of_row(sum_of_squares(part, center));
  const float inverse = tv_rsqrt(tv_div(spread, float(count)) + eps);
  store(part, row, center, inverse);
  if (first == 0u) store_statistics(row, center, inverse);
}
