// y[p, oh, ow] = sum of x[p, ih, iw] over a window / divisor.
//
// The divisor is `divisor` where it is not 0, else the window's size: clipped to the padded input,
// or without INCLUDE_PAD to the input. ADAPTIVE: window oh is [floor(oh H / OH), ceil((oh + 1) H /
// OH)).
// Small windows are summed in the order in which torch does it, so that results that are quantised
// have its bits; of large ones the sums of rows are added, which rounds less.
// x: planes × height × width, y: planes × out_height × out_width. One output an invocation.

void main() {
  const uint id = tv_group() * LOCAL_X + gl_LocalInvocationID.x;
  if (id >= outputs) return;
  const uint ow = id % out_width;
  const uint row = id / out_width;
  const uint oh = row % out_height;
  const uint plane = (row / out_height) * height * width;
#if ADAPTIVE
  const int top = int(oh * height / out_height);
  const int left = int(ow * width / out_width);
  const int bottom = int(((oh + 1u) * height + out_height - 1u) / out_height);
  const int right = int(((ow + 1u) * width + out_width - 1u) / out_width);
  const int area = (bottom - top) * (right - left);
#else
  const int top0 = int(oh * stride_h) - int(pad_h);
  const int left0 = int(ow * stride_w) - int(pad_w);
  const int bottom0 = min(top0 + int(kernel_h), int(height + pad_h));
  const int right0 = min(left0 + int(kernel_w), int(width + pad_w));
  const int top = max(top0, 0), left = max(left0, 0);
  const int bottom = min(bottom0, int(height)), right = min(right0, int(width));
#if INCLUDE_PAD
  const int window = (bottom0 - top0) * (right0 - left0);
#else
  const int window = (bottom - top) * (right - left);
#endif
  const int area = divisor != 0 ? divisor : window;
#endif
  const bool by_rows = (bottom - top) * (right - left) > 64;
  float sum = 0.0;
  for (int ih = top; ih < bottom; ++ih) {
    float block = by_rows ? 0.0 : sum;
    for (int iw = left; iw < right; ++iw) block += x_load(plane + uint(ih) * width + uint(iw));
    sum = by_rows ? sum + block : block;
  }
  y_store(id, top < bottom && left < right ? tv_div(sum, float(area)) : 0.0);
}
