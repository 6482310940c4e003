// y[p, oh, ow] = max of x[p, ih, iw] over a window; idx: ih * width + iw of the first largest
// element, or of the last nan, as torch has it. A window begins at
//   int((o + sample) * alpha) - int(sample * alpha), alpha = (size - kernel) / (out_size - 1)
// and the last one of each row and column ends where the picture does.
//
// x: planes × height × width, y and idx: planes × out_height × out_width, samples: planes × 2, for
// width and height, in this order. One output an invocation. Defines: INDICES (is that wanted).

/// Where window `o` begins, inside of the input whatever the sample.
uint begin(uint o, float random, uint out_size, uint size, uint kernel) {
  const int last = int(size - kernel);
  if (o + 1u >= out_size) return uint(last);
  const float alpha = tv_div(float(last), float(out_size - 1u));
  precise float place = (float(o) + random) * alpha, shift = random * alpha;  // as torch rounds
  return uint(clamp(int(place) - int(shift), 0, last));
}

void main() {
  const uint id = tv_group() * LOCAL_X + gl_LocalInvocationID.x;
  if (id >= outputs) return;
  const uint ow = id % out_width;
  const uint row = id / out_width;
  const uint oh = row % out_height;
  const uint plane = row / out_height;
  const uint left = begin(ow, samples_load(2u * plane), out_width, width, kernel_w);
  const uint top = begin(oh, samples_load(2u * plane + 1u), out_height, height, kernel_h);

  const uint offset = plane * height * width;
  float best = -TV_INF;
  uint best_at = top * width + left;
  for (uint kh = 0u; kh < kernel_h; ++kh) {
    for (uint kw = 0u; kw < kernel_w; ++kw) {
      const uint at = (top + kh) * width + left + kw;
      const float v = x_load(offset + at);
      if (v > best || tv_isnan(v)) {
        best = v;
        best_at = at;
      }
    }
  }
  y_store(id, best);
#if INDICES
  idx_store(id, idx_T(best_at));
#endif
}
