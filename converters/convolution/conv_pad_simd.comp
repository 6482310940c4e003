// conv_pad.comp for rows of neighbours in fp32, on CPU drivers (simd.glsl): a workgroup copies ROWS
// rows of one phase, PITCH elements each, as one run of vectors. Which element of a row a lane of a
// vector takes is known to the compiler; where a row lies, and whether it is padding, is uniform.
//
// What lies behind a channel's last phase is not written: no output reads it.
// Grid: (phases · ceil(rows / ROWS), channels, z). Defines: PITCH, ROWS, ALL_ROWS (of a phase),
// IN_W, PAD_W, STRIDE_W, PLACE_OF, CHANNEL_OF and IMAGE_OF (uniform numbers of the grid's places).

const uint WIDE = 2u * LANES, RUN = ROWS * PITCH, PAIRS = (RUN + WIDE - 1u) / WIDE;
const uint HELD = min(PAIRS, 8u);  // stores that wait together

struct Rows {
  uint from[ROWS];    // the element of x that a row of the result begins before or at
  bool inside[ROWS];  // else it is padding
  int shift;          // elements of x between them: column w takes number w * STRIDE_W + shift
};

uint pad_quotient(uint n, uint d) { return uint((float(n) + 0.5) / float(d)); }  // n < 2^21

Rows rows_of(uint phase, uint first, uint channel, uint image) {
  Rows rows;
  uint rh = pad_quotient(phase, phases_w);
  rows.shift = int(phase - rh * phases_w) - PAD_W;
  const uint base = image * x_z + min(channel, ic_count - 1u) * x_c;
#ifdef DEPTH
  const uint rd = pad_quotient(rh, phases_h);
  rh -= rd * phases_h;
#endif
  [[unroll]] for (uint r = 0u; r < ROWS; r++) {
    uint h = first + r, from = base;
    bool inside = channel < ic_count;
#ifdef DEPTH
    const uint d = pad_quotient(h, rows_h), id = d * stride_d + rd - uint(pad_d);
    h -= d * rows_h;
    inside = inside && id < in_d;
    from += min(id, in_d - 1u) * x_d;
#endif
    const uint ih = h * stride_h + rh - uint(pad_h);
    rows.inside[r] = inside && ih < in_h;
    rows.from[r] = from + min(ih, in_h - 1u) * x_h;
  }
  return rows;
}

/// Column w of a row that begins at element `from` of x.
float element(uint from, int w, int shift) {
  const int at = w * STRIDE_W + shift;
  const float v = simd_scalar(simd_at(x_ptr, from + uint(clamp(at, 0, IN_W - 1))), 0u);
  // Columns that are inside whatever the phase need no question.
  if (w * STRIDE_W >= PAD_W && (w + 1) * STRIDE_W - PAD_W <= IN_W) return v;
  return mix(0.0, v, at >= 0 && at < IN_W);
}

/// What lanes first … of a vector have of a row, whose column `w` lane 0 would have.
float part_of(uint from, int w, int shift) {
  if (STRIDE_W == 1 && w >= PAD_W && w + int(LANES) <= min(IN_W + PAD_W, int(PITCH))) {
    return simd_load(simd_at(x_ptr, from + uint(w - PAD_W)));
  }
  float v = 0.0;
  [[unroll]] for (uint k = 0u; k < LANES; k++) {
    const int own = w + int(k);
    if (own >= 0 && own < int(PITCH)) {
      v = mix(v, element(from, own, shift), gl_SubgroupInvocationID == k);
    }
  }
  return v;
}

/// Elements i … i + LANES - 1 of the run.
float vector_of(Rows rows, uint i) {
  float v = 0.0;
  [[unroll]] for (uint j = 0u; j <= (LANES + PITCH - 2u) / PITCH; j++) {
    const uint r = i / PITCH + j;
    const int w = int(i) - int(r * PITCH);
    if (r < ROWS && w + int(LANES) > 0) {
      const bool own = w + int(gl_SubgroupInvocationID) >= 0 &&
                       w + int(gl_SubgroupInvocationID) < int(PITCH);
      v = mix(v, mix(0.0, part_of(rows.from[r], w, rows.shift), rows.inside[r]), own);
    }
  }
  return v;
}

void main() {
  const uint place = PLACE_OF(gl_WorkGroupID.x);
  const uint channel = CHANNEL_OF(gl_WorkGroupID.y), image = IMAGE_OF(gl_WorkGroupID.z);
  const uint phase = pad_quotient(place, blocks);
  const uint first = min((place - phase * blocks) * ROWS, ALL_ROWS - ROWS);
  const Rows rows = rows_of(phase, first, channel, image);
  const uint to = (image * gl_NumWorkGroups.y + channel) * plane + phase * phase_size;
  [[unroll]] for (uint k = 0u; k < PAIRS; k += HELD) {
    simd_held held[HELD];
    [[unroll]] for (uint j = 0u; j < HELD; j++) {
      const uint i = min((k + j) * WIDE, RUN - WIDE);
      held[j] = simd_store2(simd_at(y_ptr, to + first * PITCH + i), vector_of(rows, i),
                            vector_of(rows, i + LANES));
    }
    SIMD_WAIT
    [[unroll]] for (uint j = 0u; j < HELD; j++) simd_release(held[j]);
  }
}
