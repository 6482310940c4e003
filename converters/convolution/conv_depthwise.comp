// Depthwise convolution (one input channel a group): y[n][c][oh][ow] = bias[c] + sum over kh, kw of
// x[n][c / multiplier][oh * stride_h - pad_h + kh * dil_h][ow * STRIDE_W - pad_w + kw * DIL_W] *
// w[c][kh][kw].
//
// DEPTH: in three dimensions likewise. Of integers less their zero points: sums of so few are exact
// in floats.
//
// An invocation computes WIDE neighbours of a row from one load of each input that they share. x,
// w: any strides; a window of KH x KW. LAST: neighbouring invocations take neighbouring channels,
// else neighbouring runs of a row. V4: rows are a multiple of 4 long, WIDE is 4.
// Grid: an invocation for each of `total` = n * channels * [out_d *] out_h * ceil(out_w / WIDE).

#include "conv_geometry.glsl"
#include "conv_zero.glsl"

#ifdef DEPTH
#define LINES (out_d * out_h)
#else
#define LINES out_h
#endif
const uint SPAN = (WIDE - 1) * STRIDE_W + (KW - 1) * DIL_W + 1;

/// Where an invocation's outputs are.
struct Run {
  uint n, c;       // image and channel
  uint line, ow;   // row of y, and first place in it
  uint in_volume;  // row of the channel
};

Run run_of(uint i) {
  Run r;
#if LAST
  const uint place = i / channels, across = place / runs;
  r.c = i - place * channels;
  r.ow = (place - across * runs) * WIDE;
  r.n = across / LINES;
  r.in_volume = across - r.n * LINES;
  r.line = (r.n * channels + r.c) * LINES + r.in_volume;
#else
  r.line = i / runs;
  r.ow = (i - r.line * runs) * WIDE;
  const uint z = r.line / LINES;
  r.in_volume = r.line - z * LINES;
  r.n = z / channels;
  r.c = z - r.n * channels;
#endif
  return r;
}

/// Adds the products of channel c's KW weights from w_from on and row ih of the plane of x at
/// x_from.
void add_row(uint x_from, uint ih, int iw0, bool in_depth, uint w_from, uint c,
             inout float acc[WIDE]) {
  float row[SPAN];
  [[unroll]] for (uint s = 0u; s < SPAN; s++) {
    const uint iw = uint(iw0 + int(s));  // a negative one becomes large
    // No branch: all loads are in flight together.
    const bool counts = in_depth && ih < in_h && iw < in_w;
    const float v = conv_x(counts ? x_from + ih * x_h + iw * x_w : 0u);
    row[s] = counts ? v : 0.0;
  }
  [[unroll]] for (uint kw = 0u; kw < KW; kw++) {
    const float w = conv_w(w_from + kw * w_w, c);
    [[unroll]] for (uint j = 0u; j < WIDE; j++) {
      acc[j] = fma(w, row[j * STRIDE_W + kw * DIL_W], acc[j]);
    }
  }
}

void add_window(Run r, inout float acc[WIDE]) {
#ifdef DEPTH
  const uint od = r.in_volume / out_h, oh = r.in_volume - od * out_h;
  const int id0 = int(od * stride_d) - pad_d;
#else
  const uint oh = r.in_volume;
#endif
  const uint g = r.c / oc_count;
  const uint x_first = r.n * x_n + g * x_c, w_first = w_0 + g * w_g + (r.c - g * oc_count) * w_oc;
  const int ih0 = int(oh * stride_h) - pad_h, iw0 = int(r.ow * STRIDE_W) - pad_w;
  [[unroll]] for (uint kd = 0u; kd < KD; kd++) {
    uint x_from = x_first, w_from = w_first;
    bool in_depth = true;
#ifdef DEPTH
    uint id;
    in_depth = conv_source(id0 + int(kd * dil_d), 1u, in_d, id);
    x_from += id * x_d;
    w_from += kd * w_d;
#endif
    [[unroll]] for (uint kh = 0u; kh < KH; kh++) {
      add_row(x_from, uint(ih0 + int(kh * dil_h)), iw0, in_depth, w_from + kh * w_h, r.c, acc);
    }
  }
}

void main() {
  const uint i = tv_group() * LOCAL_X + gl_LocalInvocationID.x;
  if (i >= total) return;
  const Run r = run_of(i);
  float acc[WIDE];
  [[unroll]] for (uint j = 0u; j < WIDE; j++) acc[j] = 0.0;
  add_window(r, acc);
#if BIAS
  const float add = float(bias_load(r.c));
  [[unroll]] for (uint j = 0u; j < WIDE; j++) acc[j] += add;
#endif
  const uint at = r.line * out_w + r.ow;
#if V4
  y_store4(at, y_V(acc[0], acc[1], acc[2], acc[3]));
#else
  [[unroll]] for (uint j = 0u; j < WIDE; j++) {
    if (r.ow + j < out_w) y_store(at + j, y_T(acc[j]));
  }
#endif
}
