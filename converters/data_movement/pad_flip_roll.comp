// y[i0, i1, …] = x[m(i0), m(i1), …], each coordinate mapped by itself: pad, flip, roll, repeat.
//
// MAP(c, size, shift) gives the source coordinate as an int from a coordinate c of y, the source's
// size and the axis's shift; with CONSTANT, one outside of the source means `fill`.
// AXES: AXIS(…) for each dimension, innermost first, LAST_AXIS for the outermost.

#define CLAMP_PAD(c, size, shift) clamp(int(c) - (shift), 0, int(size) - 1)
#define SHIFT(c, size, shift) (int(c) - (shift))
#define FLIP(c, size, shift) ((shift) != 0 ? int(size) - 1 - int(c) : int(c))
#define WRAP(c, size, shift) wrapped(int(c) - (shift), int(size))
#define REFLECT(c, size, shift) reflected(int(c) - (shift), int(size))

int wrapped(int c, int size) {
  // GLSL leaves % of a negative number undefined, and drivers differ.
  return c < 0 ? size - 1 - (-1 - c) % size : c % size;
}
int reflected(int c, int size) {
  const int r = abs(c);
  return r < size ? r : 2 * (size - 1) - r;
}

#define MOVE(c, size, shift, stride)                \
  {                                                 \
    const int s_ = MAP(c, size, shift);             \
    outside = outside || s_ < 0 || s_ >= int(size); \
    at += uint(s_) * (stride);                      \
  }
#define AXIS(out_size, size, shift, stride)                     \
  {                                                             \
    const uint q_ = rest / (out_size);                          \
    MOVE(rest - q_ * (out_size), size, shift, stride)           \
    rest = q_;                                                  \
  }
#define LAST_AXIS(size, shift, stride) MOVE(rest, size, shift, stride)

void main() {
  const uint id = tv_group() * LOCAL_X + gl_LocalInvocationID.x;
  if (id >= elements) return;
  uint rest = id, at = 0u;
  bool outside = false;
  AXES
#if CONSTANT
  // A branch, not a select: an address outside of x must not be read.
  y_T v = y_T(fill);
  if (!outside) v = y_T(x_element(at));
  y_store(id, v);
#else
  y_store(id, y_T(x_element(at)));
#endif
}
