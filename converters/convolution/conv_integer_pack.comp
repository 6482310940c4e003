// y[oc][tap][ic] = w[oc][ic][tap] - OFFSET for ic < ic_count, 0 up to a multiple of 4: the weight
// of conv_integer_tiled, as signed bytes. w: any strides, in two dimensions. One byte an
// invocation.

void main() {
  const uint id = tv_group() * LOCAL_X + gl_LocalInvocationID.x;
  if (id >= elements) return;
  const uint channels = (ic_count + 3u) / 4u * 4u, taps = k_h * k_w;
  const uint line = id / channels, ic = id - line * channels;
  const uint oc = line / taps, tap = line - oc * taps, g = oc / oc_count, m = oc - g * oc_count;
  int v = 0;
  if (ic < ic_count) {
    const uint kh = tap / k_w, kw = tap - kh * k_w;
    v = int(w_raw(w_0 + g * w_g + m * w_oc + ic * w_ic + kh * w_h + kw * w_w)) - OFFSET;
  }
  y_raw_store(id, v);
}
