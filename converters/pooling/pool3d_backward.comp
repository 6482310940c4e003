// gx[p, id, ih, iw] = sum over the windows that hold the element, in ascending order, of g /
// divisor, or, with MAX, of g where idx names the element. Windows and divisors as in pool3d.comp.
// One element of gx an invocation.

struct Range {
  uint from, to;  // windows that may hold a coordinate
};

Range windows_of(uint i, uint size, uint out_size, uint kernel, uint stride, uint pad,
    uint dilation) {
#if ADAPTIVE
  return Range(i * out_size / size, min(((i + 1u) * out_size + size - 1u) / size, out_size));
#else
  const uint at = i + pad, reach = (kernel - 1u) * dilation + 1u;
  return Range(at < reach ? 0u : (at - reach) / stride + 1u, min(at / stride + 1u, out_size));
#endif
}

/// The window's part of the divisor; 0 if it does not hold coordinate i.
int part(uint o, uint i, uint size, uint out_size, uint kernel, uint stride, uint pad) {
#if ADAPTIVE
  const uint begin = o * size / out_size, end = ((o + 1u) * size + out_size - 1u) / out_size;
  return i < begin || i >= end ? 0 : int(end - begin);
#else
  const int begin = int(o * stride) - int(pad);
  const int end = min(begin + int(kernel), int(size + pad));
#if INCLUDE_PAD
  return end - begin;
#else
  return min(end, int(size)) - max(begin, 0);
#endif
#endif
}

void main() {
  const uint id = tv_group() * LOCAL_X + gl_LocalInvocationID.x;
  if (id >= elements) return;
  uint rest = id;
  const uint iw = rest % in_w;
  rest /= in_w;
  const uint ih = rest % in_h;
  rest /= in_h;
  const uint i_d = rest % in_d;
  const uint plane = (rest / in_d) * out_d * out_h * out_w;
  const Range d = windows_of(i_d, in_d, out_d, kernel_d, stride_d, pad_d, dilation_d);
  const Range h = windows_of(ih, in_h, out_h, kernel_h, stride_h, pad_h, dilation_h);
  const Range w = windows_of(iw, in_w, out_w, kernel_w, stride_w, pad_w, dilation_w);
  const uint own = (i_d * in_h + ih) * in_w + iw;
  float sum = 0.0;
  for (uint i = d.from; i < d.to; ++i) {
    for (uint j = h.from; j < h.to; ++j) {
      for (uint k = w.from; k < w.to; ++k) {
        const uint at = plane + (i * out_h + j) * out_w + k;
#if MAX
        if (uint(idx_load(at)) == own) sum += g_load(at);
#else
        const int area = part(i, i_d, in_d, out_d, kernel_d, stride_d, pad_d) *
                         part(j, ih, in_h, out_h, kernel_h, stride_h, pad_h) *
                         part(k, iw, in_w, out_w, kernel_w, stride_w, pad_w);
        if (area > 0) sum += tv_div(g_load(at), float(divisor != 0 ? divisor : area));
#endif
      }
    }
  }
  gx_store(id, sum);
}
