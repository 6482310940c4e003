// y[p, od, oh, ow] = mean or largest (MAX) of x[p, id, ih, iw] over a window of three dimensions.
//
// Windows begin at o * stride - pad and step by dilation; ADAPTIVE: window o is [floor(o N / ON),
// ceil((o + 1) N / ON)). The mean divides by `divisor` where that is not 0, else by the window's
// size, clipped to the padded input, or without INCLUDE_PAD to the input. INDICES: idx gets the
// place of the first largest element in its volume (torch's), a nan counting as largest.
// KEY: what the largest is compared as; FLOAT_KEY; LOWEST: of a window without elements.
// x: planes × depth × height × width. One output an invocation.

struct Span {
  int from, to, step;   // coordinates in the input: from, from + step, … below `to`
  int padded;           // elements of the window that lie in the padded input
};

Span span_of(uint o, uint size, uint out_size, uint kernel, uint stride, uint pad, uint dilation) {
#if ADAPTIVE
  const int begin = int(o * size / out_size),
      end = int(((o + 1u) * size + out_size - 1u) / out_size);
  return Span(begin, end, 1, end - begin);
#else
  const int begin = int(o * stride) - int(pad), d = int(dilation);
  const int end = begin + int(kernel - 1u) * d + 1;
  const int first = begin >= 0 ? begin : begin + (-begin + d - 1) / d * d;
  return Span(first, min(end, int(size)), d, min(end, int(size + pad)) - begin);
#endif
}

int count_of(Span s) { return max((s.to - s.from + s.step - 1) / s.step, 0); }

uint place_of(int d, int h, int w) { return (uint(d) * in_h + uint(h)) * in_w + uint(w); }

#if MAX
/// The largest element, and its place in the volume.
KEY largest_of(uint plane, Span d, Span h, Span w, out uint best_at) {
  KEY best = LOWEST;
  best_at = place_of(d.from, h.from, w.from);
  for (int i = d.from; i < d.to; i += d.step) {
    for (int j = h.from; j < h.to; j += h.step) {
      for (int k = w.from; k < w.to; k += w.step) {
        const uint at = place_of(i, j, k);
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
  }
  return best;
}
#else
float mean_of(uint plane, Span d, Span h, Span w) {
  float sum = 0.0;
  for (int i = d.from; i < d.to; i += d.step) {
    for (int j = h.from; j < h.to; j += h.step) {
      float row = 0.0;
      for (int k = w.from; k < w.to; k += w.step) row += x_load(plane + place_of(i, j, k));
      sum += row;
    }
  }
  const int inside = count_of(d) * count_of(h) * count_of(w);
#if INCLUDE_PAD
  const int size = d.padded * h.padded * w.padded;
#else
  const int size = inside;
#endif
  return inside == 0 ? 0.0 : tv_div(sum, float(divisor != 0 ? divisor : size));
}
#endif

void main() {
  const uint id = tv_group() * LOCAL_X + gl_LocalInvocationID.x;
  if (id >= outputs) return;
  uint rest = id;
  const uint ow = rest % out_w;
  rest /= out_w;
  const uint oh = rest % out_h;
  rest /= out_h;
  const uint od = rest % out_d;
  const uint plane = (rest / out_d) * in_d * in_h * in_w;
  const Span d = span_of(od, in_d, out_d, kernel_d, stride_d, pad_d, dilation_d);
  const Span h = span_of(oh, in_h, out_h, kernel_h, stride_h, pad_h, dilation_h);
  const Span w = span_of(ow, in_w, out_w, kernel_w, stride_w, pad_w, dilation_w);
#if MAX
  uint best_at;
  y_store(id, y_T(largest_of(plane, d, h, w, best_at)));
#if INDICES
  idx_store(id, idx_T(best_at));
#endif
#else
  y_store(id, mean_of(plane, d, h, w));
#endif
}
