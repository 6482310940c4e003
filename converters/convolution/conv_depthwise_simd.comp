// Depthwise convolution (one input channel a group) of an input that conv_pad has laid out, on CPU
// drivers: y[z][p] = bias[oc] + sum over taps of x[z][offset(tap) + p] * w[oc][tap].
//
// Columns p count the outputs with rows `pitch` apart; those past out_w of a row are not outputs.
// Channel z of y reads plane z / multiplier of x. Taps are unrolled; their offsets are made from
// phases and pitch, as uniform arithmetic.
// Grid: (ceil(columns / (2 * LANES)), z).

uint tap_offset(uint kh, uint kw) {
  const uint h = kh * dil_h, w = kw * dil_w;
  const uint phase = h % STRIDE_H * phases_w + w % STRIDE_W;
  return phase * phase_size + h / STRIDE_H * pitch + w / STRIDE_W;
}

void main() {
  const uint t = lane_uniform(gl_WorkGroupID.x), z = lane_uniform(gl_WorkGroupID.y);
  const uint channel = z % oc_count, lane = gl_SubgroupInvocationID;
  tv_ref_f32 px = lane_at(x_ptr, z / multiplier * plane + t * (2u * LANES));
  tv_ref_f32 pw = lane_at(w_ptr, channel * (KH * KW));
  float a = 0.0, b = 0.0;
  LANE_UNROLL for (uint kh = 0u; kh < KH; kh++) {
    LANE_UNROLL for (uint kw = 0u; kw < KW; kw++) {
      const float w = lane_scalar(pw, kh * KW + kw);
      tv_ref_f32 p = lane_at(px, tap_offset(kh, kw));
      a = fma(w, lane_load(p), a);
      b = fma(w, lane_load(lane_at(p, LANES)), b);
    }
  }
#if BIAS
  const float add = float(bias_raw(channel));
  a += add;
  b += add;
#endif
  [[unroll]] for (uint half_ = 0u; half_ < 2u; half_++) {
    const uint p = t * (2u * LANES) + half_ * LANES + lane, oh = p / pitch, ow = p - oh * pitch;
    if (ow < out_w && oh < out_h) y_store((z * out_h + oh) * out_w + ow, y_T(half_ == 0u ? a : b));
  }
}
