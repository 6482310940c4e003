// The row that an entry of index tensors names, counted over the indexed dimensions.
//
// With WRAPS negative values count from the end. PLACE: the index as a place in its dimension.
// INDEX_PICKS(row): pick(row, …) for each index tensor.

struct Row {
  uint number;
  bool inside;  // whether there is such a row
};

void pick(inout Row row, int64_t v, uint size) {
  const int64_t front = bool(WRAPS) && v < int64_t(0) ? v + int64_t(size) : v;
  const uint place = PLACE(front, size);
  row.inside = row.inside && int64_t(place) == front;
  row.number = row.number * size + place;
}
