// Depthwise convolution (one input channel a group) of an input that conv_pad has laid out, on CPU
// drivers: y[z][p] = bias[oc] + sum over taps of x[z][offset(tap) + p] * w[oc][tap].
//
// Columns p count the outputs with rows `pitch` apart, and with DEPTH images `slab` apart; those
// past out_w of a row or out_h of an image are not outputs.
// Channel z of y reads plane z / multiplier of x. Taps are unrolled; their offsets are made from
// phases and pitch, as uniform arithmetic.
// Grid: (ceil(columns / (2 * LANES)), z).
//
// ROW_TILES: workgroups have tiles of rows instead (row_tiles.glsl), and nothing else is computed.

#include "conv_pairs.glsl"
#if ROW_TILES
#include "row_tiles.glsl"
#endif

uint tap_offset(uint kd, uint kh, uint kw) {
  const uint h = kh * dil_h, w = kw * dil_w;
  uint phase = h % STRIDE_H * phases_w + w % STRIDE_W, image = 0u;
#ifdef DEPTH
  const uint d = kd * dil_d;
  phase += d % STRIDE_D * (phases_h * phases_w);
  image = d / STRIDE_D * slab;
#endif
  return phase * phase_size + image + h / STRIDE_H * pitch + w / STRIDE_W;
}

#if ROW_TILES

/// The sums of a vector of outputs: `p` is what tap 0 reads for the first, `pw` the window.
float sums_at(tv_ref_f32 p, tv_ref_f32 pw) {
  float a = 0.0;
  [[unroll]] for (uint kh = 0u; kh < KH; kh++) {
    [[unroll]] for (uint kw = 0u; kw < KW; kw++) {
      const float w = simd_scalar(pw, kh * KW + kw);
      a = fma(w, simd_load(simd_at(p, tap_offset(0u, kh, kw))), a);
    }
  }
  return a;
}

void main() {
  const RowTile t = row_tile();
  const uint channel = t.z - tile_quotient(t.z, oc_count) * oc_count;
  const uint from = tile_quotient(t.z, multiplier) * plane + t.first;
  tv_ref_f32 pw = simd_at(w_ptr, channel * (KH * KW));
  float add = 0.0;
#if BIAS
  add = float(bias_raw(channel));
#endif
  float v[ROWS][HALVES];
  [[unroll]] for (uint r = 0u; r < ROWS; r++) {
    tv_ref_f32 p = simd_at(x_ptr, from + row_of_tile(t, r) * pitch);
    [[unroll]] for (uint h = 0u; h < HALVES; h++) {
      v[r][h] = sums_at(simd_at(p, h * LANES), pw) + add;
    }
  }
  store_rows(t, v);
}

#else

void main() {
  const uint t = simd_uniform(gl_WorkGroupID.x), z = simd_uniform(gl_WorkGroupID.y);
  const uint channel = z % oc_count, lane = gl_SubgroupInvocationID;
  tv_ref_f32 px = simd_at(x_ptr, z / multiplier * plane + t * (2u * LANES));
  tv_ref_f32 pw = simd_at(w_ptr, channel * (KD * KH * KW));
  float a = 0.0, b = 0.0;
  SIMD_UNROLL for (uint kd = 0u; kd < KD; kd++) {
    SIMD_UNROLL for (uint kh = 0u; kh < KH; kh++) {
      SIMD_UNROLL for (uint kw = 0u; kw < KW; kw++) {
        const float w = simd_scalar(pw, (kd * KH + kh) * KW + kw);
        tv_ref_f32 p = simd_at(px, tap_offset(kd, kh, kw));
        a = fma(w, simd_load(p), a);
        b = fma(w, simd_load(simd_at(p, LANES)), b);
      }
    }
  }
#if BIAS
  const float add = float(bias_raw(channel));
  a += add;
  b += add;
#endif
  [[unroll]] for (uint half_ = 0u; half_ < 2u; half_++) {
    uint p = t * (2u * LANES) + half_ * LANES + lane, line = z;
    bool counts = true;
#ifdef DEPTH
    const uint od = conv_quotient(p, slab);
    p -= od * slab;
    line = z * out_d + od;
    counts = od < out_d;
#endif
    const uint oh = conv_quotient(p, pitch), ow = p - oh * pitch;
    if (counts && ow < out_w && oh < out_h) {
      y_store((line * out_h + oh) * out_w + ow, y_T(half_ == 0u ? a : b));
    }
  }
}

#endif
