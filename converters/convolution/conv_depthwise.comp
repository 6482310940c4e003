// Depthwise convolution (one input channel a group): y[n][c][oh][ow] = bias[c] + sum over kh, kw of
// x[n][c / multiplier][oh * stride_h - pad_h + kh * dil_h][ow * STRIDE_W - pad_w + kw * DIL_W] *
// w[c][kh][kw].
//
// DEPTH: in three dimensions likewise.
//
// An invocation computes WIDE neighbours of a row from one load of each input that they share. x, w:
// any strides; a window of KH x KW. LAST: neighbouring invocations take neighbouring channels, else
// neighbouring runs of a row. V4: rows are a multiple of 4 long, WIDE is 4.
// Grid: an invocation for each of `total` = n * channels * [out_d *] out_h * ceil(out_w / WIDE).

#include "conv_geometry.glsl"

#ifdef DEPTH
#define LINES (out_d * out_h)
#else
#define LINES out_h
#endif
const uint SPAN = (WIDE - 1) * STRIDE_W + (KW - 1) * DIL_W + 1;

void main() {
  const uint i = tv_group() * LOCAL_X + gl_LocalInvocationID.x;
  if (i >= total) return;
#if LAST
  const uint place = i / channels, c = i - place * channels, across = place / runs;
  const uint ow = (place - across * runs) * WIDE, n = across / LINES, in_volume = across - n * LINES;
  const uint line = (n * channels + c) * LINES + in_volume;
#else
  const uint line = i / runs, ow = (i - line * runs) * WIDE;
  const uint z = line / LINES, in_volume = line - z * LINES;
  const uint n = z / channels, c = z - n * channels;
#endif
#ifdef DEPTH
  const uint od = in_volume / out_h, oh = in_volume - od * out_h;
  const int id0 = int(od * stride_d) - pad_d;
#else
  const uint oh = in_volume;
#endif
  const uint g = c / oc_count;
  const uint x_first = n * x_n + g * x_c, w_first = w_0 + g * w_g + (c - g * oc_count) * w_oc;
  const int ih0 = int(oh * stride_h) - pad_h, iw0 = int(ow * STRIDE_W) - pad_w;

  float acc[WIDE];
  [[unroll]] for (uint j = 0u; j < WIDE; j++) acc[j] = 0.0;
  [[unroll]] for (uint kd = 0u; kd < KD; kd++) {
    uint base = x_first, w_base = w_first;
    bool in_depth = true;
#ifdef DEPTH
    uint id;
    in_depth = conv_source(id0 + int(kd * dil_d), 1u, in_d, id);
    base += id * x_d;
    w_base += kd * w_d;
#endif
    [[unroll]] for (uint kh = 0u; kh < KH; kh++) {
      const uint ih = uint(ih0 + int(kh * dil_h));  // a negative one becomes large
      float row[SPAN];
      [[unroll]] for (uint s = 0u; s < SPAN; s++) {
        const uint iw = uint(iw0 + int(s));
        // No branch: all loads are in flight together.
        const bool counts = in_depth && ih < in_h && iw < in_w;
        const float v = float(x_raw(counts ? base + ih * x_h + iw * x_w : 0u));
        row[s] = counts ? v : 0.0;
      }
      [[unroll]] for (uint kw = 0u; kw < KW; kw++) {
        const float w = float(w_raw(w_base + kh * w_h + kw * w_w));
        [[unroll]] for (uint j = 0u; j < WIDE; j++) {
          acc[j] = fma(w, row[j * STRIDE_W + kw * DIL_W], acc[j]);
        }
      }
    }
  }
#if BIAS
  const float add = float(bias_load(c));
  [[unroll]] for (uint j = 0u; j < WIDE; j++) acc[j] += add;
#endif
  const uint at = line * out_w + ow;
#if V4
  y_store4(at, vec4(acc[0], acc[1], acc[2], acc[3]));
#else
  [[unroll]] for (uint j = 0u; j < WIDE; j++) {
    if (ow + j < out_w) y_store(at + j, y_T(acc[j]));
  }
#endif
}
