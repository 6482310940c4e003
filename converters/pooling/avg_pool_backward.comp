// gx[p, ih, iw] = sum of g[p, oh, ow] / divisor(oh, ow) over the windows that contain (ih, iw), in
// ascending order; windows and divisors as in avg_pool.comp. One element of gx an invocation.

#if ADAPTIVE
uint begin_of(uint o, uint from, uint to) { return o * from / to; }
uint end_of(uint o, uint from, uint to) { return ((o + 1u) * from + to - 1u) / to; }
#endif

void main() {
  const uint id = tv_group() * LOCAL_X + gl_LocalInvocationID.x;
  if (id >= elements) return;
  const uint iw = id % width;
  const uint row = id / width;
  const uint ih = row % height;
  const uint plane = (row / height) * out_height * out_width;
#if ADAPTIVE
  const uint first_h = ih * out_height / height, first_w = iw * out_width / width;
  const uint last_h = min(((ih + 1u) * out_height + height - 1u) / height, out_height);
  const uint last_w = min(((iw + 1u) * out_width + width - 1u) / width, out_width);
#else
  const uint h = ih + pad_h, w = iw + pad_w;
  const uint first_h = h < kernel_h ? 0u : (h - kernel_h) / stride_h + 1u;
  const uint first_w = w < kernel_w ? 0u : (w - kernel_w) / stride_w + 1u;
  const uint last_h = min(h / stride_h + 1u, out_height);
  const uint last_w = min(w / stride_w + 1u, out_width);
#endif
  float sum = 0.0;
  for (uint oh = first_h; oh < last_h; ++oh) {
    for (uint ow = first_w; ow < last_w; ++ow) {
#if ADAPTIVE
      const uint top = begin_of(oh, height, out_height), bottom = end_of(oh, height, out_height);
      const uint left = begin_of(ow, width, out_width), right = end_of(ow, width, out_width);
      if (ih < top || ih >= bottom || iw < left || iw >= right) continue;
      const int area = int((bottom - top) * (right - left));
#else
      const int top0 = int(oh * stride_h) - int(pad_h);
      const int left0 = int(ow * stride_w) - int(pad_w);
      const int bottom0 = min(top0 + int(kernel_h), int(height + pad_h));
      const int right0 = min(left0 + int(kernel_w), int(width + pad_w));
#if INCLUDE_PAD
      const int window = (bottom0 - top0) * (right0 - left0);
#else
      const int window =
          (min(bottom0, int(height)) - max(top0, 0)) * (min(right0, int(width)) - max(left0, 0));
#endif
      const int area = divisor != 0 ? divisor : window;
#endif
      sum += tv_div(g_load(plane + oh * out_width + ow), float(area));
    }
  }
  gx_store(id, sum);
}
