// y[i0, i1, …] = x[m(i0), m(i1), …], each coordinate mapped by itself: pad, flip, roll, repeat.
//
// MAP(c, size, shift) gives the source coordinate as an int from a coordinate c of y, the source's
// size and the axis's shift; with CONSTANT, one outside of the source means FILL.
// AXES(place): axis(place, …) for each dimension, innermost first, last_axis for the outermost.

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

struct Place {
  uint rest;     // number of the element over the dimensions that are left
  uint at;       // its offset in x
  bool outside;  // whether it is none of x's
};

/// Coordinate c of a dimension of `size` elements.
void move(inout Place p, uint c, uint size, int shift, uint stride) {
  const int s = MAP(c, size, shift);
  p.outside = p.outside || s < 0 || s >= int(size);
  p.at += uint(s) * stride;
}
void axis(inout Place p, uint out_size, uint size, int shift, uint stride) {
  const uint q = p.rest / out_size;
  move(p, p.rest - q * out_size, size, shift, stride);
  p.rest = q;
}
void last_axis(inout Place p, uint size, int shift, uint stride) {
  move(p, p.rest, size, shift, stride);
}

void main() {
  const uint id = tv_group() * LOCAL_X + gl_LocalInvocationID.x;
  if (id >= elements) return;
  Place p = Place(id, 0u, false);
  AXES(p)
#if CONSTANT
  // A branch, not a select: an address outside of x must not be read.
  y_T v = y_T(FILL);
  if (!p.outside) v = y_T(x_element(p.at));
  y_store(id, v);
#else
  y_store(id, y_T(x_element(p.at)));
#endif
}
