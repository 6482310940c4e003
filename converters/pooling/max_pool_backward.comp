// gx[p, i] = sum of g[p, o] over the outputs o whose window chose element i, in ascending order.
//
// gx: planes × height × width; g, idx: planes × out_height × out_width. Each element asks the
// windows that can contain it, so nothing is added from two sides. One element of gx an invocation.

void main() {
  const uint id = tv_group() * LOCAL_X + gl_LocalInvocationID.x;
  if (id >= elements) return;
  const uint iw = id % width;
  const uint row = id / width;
  const uint ih = row % height;
  const uint plane = (row / height) * out_height * out_width;
  const int64_t at = int64_t(ih * width + iw);

  // oh * stride_h - pad_h <= ih <= oh * stride_h - pad_h + (kernel_h - 1) * dilation_h
  const uint reach_h = (kernel_h - 1u) * dilation_h, reach_w = (kernel_w - 1u) * dilation_w;
  const uint h = ih + pad_h, w = iw + pad_w;
  const uint first_h = h < reach_h ? 0u : (h - reach_h + stride_h - 1u) / stride_h;
  const uint first_w = w < reach_w ? 0u : (w - reach_w + stride_w - 1u) / stride_w;
  const uint last_h = min(h / stride_h + 1u, out_height);
  const uint last_w = min(w / stride_w + 1u, out_width);
  float sum = 0.0;
  for (uint oh = first_h; oh < last_h; ++oh) {
    for (uint ow = first_w; ow < last_w; ++ow) {
      const uint o = plane + oh * out_width + ow;
      if (idx_load(o) == at) sum += g_load(o);
    }
  }
  gx_store(id, sum);
}
