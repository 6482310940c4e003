// y[p, oh, ow] = max of x[p, ih, iw] over a window; idx: ih * width + iw of the first largest
// element (torch's), a nan counting as largest. Padding is never chosen.
//
// x: planes × height × width, y and idx: planes × out_height × out_width. One output an invocation.
// Defines: VALUES, INDICES (whether these results are wanted), KEY (what elements are compared as),
// FLOAT_KEY, LOWEST (of a window without elements).

/// The first coordinate of a window that lies in the input.
int first(int begin, int dilation) {
  return begin >= 0 ? begin : begin + (-begin + dilation - 1) / dilation * dilation;
}

void main() {
  const uint id = tv_group() * LOCAL_X + gl_LocalInvocationID.x;
  if (id >= outputs) return;
  const uint ow = id % out_width;
  const uint row = id / out_width;
  const uint oh = row % out_height;
  const uint plane = (row / out_height) * height * width;
  const int top = int(oh * stride_h) - int(pad_h);
  const int left = int(ow * stride_w) - int(pad_w);

  KEY best = LOWEST;
  uint best_at = uint(first(top, int(dilation_h))) * width + uint(first(left, int(dilation_w)));
  for (uint kh = 0u; kh < kernel_h; ++kh) {
    const int ih = top + int(kh * dilation_h);
    if (ih < 0 || ih >= int(height)) continue;
    for (uint kw = 0u; kw < kernel_w; ++kw) {
      const int iw = left + int(kw * dilation_w);
      if (iw < 0 || iw >= int(width)) continue;
      const uint at = uint(ih) * width + uint(iw);
      const KEY v = KEY(x_load(plane + at));
#if FLOAT_KEY
      const bool larger = v > best || tv_isnan(v);
#else
      const bool larger = v > best;
#endif
      if (larger) {
        best = v;
        best_at = at;
      }
    }
  }
#if VALUES
  y_store(id, y_T(best));
#endif
#if INDICES
  idx_store(id, idx_T(best_at));
#endif
}
