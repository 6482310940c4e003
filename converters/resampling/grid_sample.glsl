// Where points of a grid lie in an image or a volume, and the elements around them, in torch's
// arithmetic. Dimension 0 is the innermost (x).
//
// Operand grid: [·, DIMS], in -1 … 1 over the image. Parameters size_0 … size_{DIMS - 1}.
// Defines: DIMS, MODE (LINEAR, NEAREST, CUBIC), PADDING (ZEROS, BORDER, REFLECTION), ALIGN
// (corners).

#define LINEAR 0
#define NEAREST 1
#define CUBIC 2
#define ZEROS 0
#define BORDER 1
#define REFLECTION 2

#if MODE == LINEAR
#define TAPS (1 << DIMS)
#elif MODE == CUBIC
#define TAPS 16
#else
#define TAPS 1
#endif

/// A point: its coordinates in elements, and how fast they move with the grid's.
struct Place {
  float at[DIMS], slope[DIMS];
};

/// An element that a point looks at: where in its plane (-1: outside), with what weight, and the
/// derivative of that by each coordinate.
struct Tap {
  int at;
  float weight, by[DIMS];
};

uint size_of(int k) {
#if DIMS == 3
  return k == 0 ? size_0 : k == 1 ? size_1 : size_2;
#else
  return k == 0 ? size_0 : size_1;
#endif
}

/// Folds v at the borders; `slope` changes its sign with each fold.
float reflected(float v, float size, inout float slope) {
#if ALIGN
  const float low = 0.0, span = size - 1.0;
#else
  const float low = -0.5, span = size;
#endif
  if (span <= 0.0) {
    slope = 0.0;
    return 0.0;
  }
  float from = v - low;
  slope = from < 0.0 ? -slope : slope;
  from = abs(from);
  const float extra = tv_fmod(from, span), folds = floor(tv_div(from, span));
  if (folds - 2.0 * floor(folds * 0.5) == 0.0) return extra + low;
  slope = -slope;
  return span - extra + low;
}

/// v by the rule for what lies outside.
float padded(float v, float size, inout float slope) {
#if PADDING == REFLECTION
  v = reflected(v, size, slope);
#endif
#if PADDING != ZEROS
  // A nan goes to the border, so that it names an element.
  const bool moves = v > 0.0 && v < size - 1.0 && !tv_isnan(v);
  slope = moves ? slope : 0.0;
  v = tv_isnan(v) ? 0.0 : clamp(v, 0.0, size - 1.0);
#endif
  return v;
}

Place place_of(uint point) {
  Place p;
  [[unroll]] for (int k = 0; k < DIMS; ++k) {
    const float g = grid_load(point * DIMS + k), size = float(size_of(k));
#if ALIGN
    p.slope[k] = (size - 1.0) * 0.5;
    p.at[k] = (g + 1.0) * 0.5 * (size - 1.0);
#else
    p.slope[k] = size * 0.5;
    p.at[k] = ((g + 1.0) * size - 1.0) * 0.5;
#endif
#if MODE != CUBIC
    p.at[k] = padded(p.at[k], size, p.slope[k]);
#endif
  }
  return p;
}

#if MODE == CUBIC
/// Weight of the tap `i` - 1 elements after the base, and its derivative; Keys (1981), a = -0.75.
vec2 cubic(float f, int i) {
  const float a = -0.75, side = i < 2 ? 1.0 : -1.0;
  const float x = i == 0 ? f + 1.0 : i == 1 ? f : i == 2 ? 1.0 - f : 2.0 - f;
  if (i == 1 || i == 2) {
    return vec2(((a + 2.0) * x - (a + 3.0)) * x * x + 1.0,
                side * (3.0 * (a + 2.0) * x - 2.0 * (a + 3.0)) * x);
  }
  return vec2(((a * x - 5.0 * a) * x + 8.0 * a) * x - 4.0 * a,
              side * ((3.0 * a * x - 10.0 * a) * x + 8.0 * a));
}
#endif

Tap tap_of(Place p, uint t) {
  Tap tap;
  tap.at = 0;
  tap.weight = 1.0;
  [[unroll]] for (int k = 0; k < DIMS; ++k) tap.by[k] = 1.0;
  bool inside = true;
  int stride = 1;
  [[unroll]] for (int k = 0; k < DIMS; ++k) {
    const float size = float(size_of(k));
#if MODE == NEAREST
    const float c = roundEven(p.at[k]);
    const vec2 w = vec2(1.0, 0.0);
#elif MODE == LINEAR
    const float base = floor(p.at[k]), f = p.at[k] - base;
    const bool next = ((t >> k) & 1u) != 0u;
    const float c = next ? base + 1.0 : base;
    const vec2 w = next ? vec2(f, 1.0) : vec2(1.0 - f, -1.0);
#else
    const float base = floor(p.at[k]);
    const int i = int(k == 0 ? t & 3u : t >> 2);
    float unused = 1.0;
    const float c = padded(base + float(i - 1), size, unused);
    const vec2 w = cubic(p.at[k] - base, i);
#endif
    inside = inside && !tv_isnan(c) && c >= 0.0 && c <= size - 1.0;
    tap.at += int(clamp(c, 0.0, size - 1.0)) * stride;
    stride *= int(size_of(k));
    [[unroll]] for (int j = 0; j < DIMS; ++j) tap.by[j] *= j == k ? w.y : w.x;
    tap.weight *= w.x;
  }
  if (!inside) tap.at = -1;
  return tap;
}
