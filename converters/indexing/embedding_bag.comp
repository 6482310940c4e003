// y[b, k] = sum, mean or largest (MODE 0, 1, 2) of weight[i, k] over bag b's indices i, which are
// indices[offsets[b]] … indices[offsets[b + 1] - 1], the last bag's up to the end. With PADDED
// `padding` takes no part; WEIGHTED multiplies each row by its sample's weight. One element an
// invocation.

uint place(int64_t offset) { return tv_place(offset, entries + 1u); }

void main() {
  const uint id = tv_group() * LOCAL_X + gl_LocalInvocationID.x;
  if (id >= elements) return;
  const uint bag = id / columns, column = id - bag * columns;
  const uint first = place(int64_t(offsets_load(bag)));
  tv_bad_index(bag == 0u && first != 0u);
  const uint last = bag + 1u < offset_count ? place(int64_t(offsets_load(bag + 1u))) : entries;
  tv_bad_index(last < first);
  float result = 0.0;
  uint count = 0u;
  for (uint k = first; k < last; ++k) {
    const int64_t wanted = int64_t(indices_load(k));
    if (bool(PADDED) && wanted == int64_t(padding)) continue;
    const uint row = tv_place(wanted, rows);
    float v = weight_load(row * columns + column);
#if WEIGHTED
    v *= samples_load(k);
#endif
#if MODE == 2
    if (count == 0u || v > result) result = v;
#else
    result += v;
#endif
    ++count;
  }
#if MODE == 1
  if (count > 1u) result = tv_div(result, float(count));
#endif
  y_store(id, result);
}
