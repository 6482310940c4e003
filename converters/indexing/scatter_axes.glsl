// Where an element of a scatter's result lies, and where its indices and sources begin.
//
// SCATTER_AXES(element): for each dimension, innermost first, axis(element, …), or, for the one
// scattered along, scattered_axis(element, …).

struct Element {
  uint rest;                 // its number over the dimensions that are left
  uint own, size;            // its coordinate along the scattered dimension, and the size of that
  uint index_from, source_from;  // offsets of its line
  bool inside;               // whether index and source reach so far
};

/// The coordinate in the next dimension.
uint take(inout Element e, uint size) {
  const uint q = e.rest / size, c = e.rest - q * size;
  e.rest = q;
  return c;
}

void axis(inout Element e, uint size, uint index_size, uint index_stride, uint source_stride) {
  const uint c = take(e, size);
  e.inside = e.inside && c < index_size;
  e.index_from += c * index_stride;
  e.source_from += c * source_stride;
}

void scattered_axis(inout Element e, uint size) {
  e.own = take(e, size);
  e.size = size;
}

Element element_of(uint id) {
  Element e = Element(id, 0u, 1u, 0u, 0u, true);
  SCATTER_AXES(e)
  return e;
}
