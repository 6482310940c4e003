// What embedding_bag leaves for its gradient. PART 0: y[k] = the bag of index k, one of `bags`; 1:
// y[b] = how many of bag b's indices count (with PADDED `padding` does not); 2: y[b, k] = the index
// of the row whose element k is the largest of bag b, 0 of an empty one. Bags as in
// embedding_bag.comp. One result an invocation.

uint place(int64_t offset) { return tv_place(offset, entries + 1u); }

void main() {
  const uint id = tv_group() * LOCAL_X + gl_LocalInvocationID.x;
  if (id >= elements) return;
#if PART == 0
  // The last bag that begins at or before index `id`.
  uint low = 0u, high = offset_count;
  for (uint k = 0u; k < 32u && low < high; ++k) {
    const uint middle = (low + high) / 2u;
    if (int64_t(offsets_load(middle)) <= int64_t(id)) low = middle + 1u;
    else high = middle;
  }
  y_store(id, y_T(min(max(low, 1u) - 1u, bags - 1u)));
#else
  const uint bag = id / columns, column = id - bag * columns;
  const uint first = place(int64_t(offsets_load(bag)));
  const uint last = bag + 1u < offset_count ? place(int64_t(offsets_load(bag + 1u))) : entries;
  int64_t result = 0;
  uint count = 0u;
  float largest = 0.0;
  for (uint k = first; k < last; ++k) {
    const int64_t wanted = int64_t(indices_load(k));
    if (bool(PADDED) && wanted == int64_t(padding)) continue;
#if PART == 2
    const int64_t row = int64_t(tv_place(wanted, rows));
    const float v = weight_load(uint(row) * columns + column);
    if (count == 0u || v > largest) {
      largest = v;
      result = row;
    }
#endif
    ++count;
  }
#if PART == 1
  result = int64_t(count);
#endif
  y_store(id, y_T(result));
#endif
}
