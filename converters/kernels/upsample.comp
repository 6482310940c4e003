// Resizing of planes: nearest (source floor(o · scale)), exact nearest (floor((o + 0.5) scale)) or
// bilinear (half-pixel centres, or ALIGN corners), in torch's arithmetic.
//
// x: planes × height × width, y: planes × out_height × out_width; scale_h and scale_w: source steps
// per output step. MODE: NEAREST, EXACT or BILINEAR. One output an invocation.

#define NEAREST 0
#define EXACT 1
#define BILINEAR 2

#if MODE == BILINEAR
float source(uint o, float scale) {
#if ALIGN
  return scale * float(o);
#else
  return max(scale * (float(o) + 0.5) - 0.5, 0.0);
#endif
}
#else
uint source(uint o, float scale, uint size) {
#if MODE == EXACT
  return min(uint(floor((float(o) + 0.5) * scale)), size - 1u);
#else
  return min(uint(floor(float(o) * scale)), size - 1u);
#endif
}
#endif

void main() {
  const uint id = tv_group() * LOCAL_X + gl_LocalInvocationID.x;
  if (id >= outputs) return;
  const uint ow = id % out_width;
  const uint row = id / out_width;
  const uint oh = row % out_height;
  const uint plane = (row / out_height) * height * width;
#if SCALES
  const float step_h = scale_h, step_w = scale_w;
#elif MODE == BILINEAR && ALIGN
  const float step_h = out_height > 1u ? tv_div(float(height - 1u), float(out_height - 1u)) : 0.0;
  const float step_w = out_width > 1u ? tv_div(float(width - 1u), float(out_width - 1u)) : 0.0;
#else
  const float step_h = tv_div(float(height), float(out_height));
  const float step_w = tv_div(float(width), float(out_width));
#endif
#if MODE == BILINEAR
  const float h = source(oh, step_h), w = source(ow, step_w);
  const uint h0 = min(uint(h), height - 1u), w0 = min(uint(w), width - 1u);
  const uint h1 = min(h0 + 1u, height - 1u), w1 = min(w0 + 1u, width - 1u);
  const float fh = clamp(h - float(h0), 0.0, 1.0), fw = clamp(w - float(w0), 0.0, 1.0);
  const uint row0 = plane + h0 * width, row1 = plane + h1 * width;
  const float top = (1.0 - fw) * x_load(row0 + w0) + fw * x_load(row0 + w1);
  const float low = (1.0 - fw) * x_load(row1 + w0) + fw * x_load(row1 + w1);
  y_store(id, (1.0 - fh) * top + fh * low);
#else
  const uint ih = source(oh, step_h, height), iw = source(ow, step_w, width);
  y_store(id, y_T(x_load(plane + ih * width + iw)));
#endif
}
