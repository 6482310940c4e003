// Convolution of 8-bit integers in two dimensions as a product of matrices, as
// conv_integer_reference defines it: rows are output channels, columns output pixels, k runs over
// (kh, kw, input channel), four channels a word; the matrix of pixels is never stored.
//
// Tiles of BM x BN outputs a workgroup and RM x RN an invocation, BK words of k at a time through
// shared memory; each invocation loads one column of pixels. x: any strides; w:
// conv_integer_pack's. Both are multiplied as signed bytes, X_OFFSET and W_OFFSET less; where x is
// padding it is its zero point. w_sums: of each row of w. W_SHIFTED: something is subtracted from
// the bytes of w.
// Grid: (ceil(pixels / BN), ceil(oc_count / BM), n * groups); local (BM / RM) * (BN / RN), a
// multiple of BN.

#include "conv_geometry.glsl"
#include "conv_integer_shift.glsl"
#include "epilogue.glsl"
#include "integer_dot.glsl"

const uint THREADS_N = BN / RN, THREADS_M = BM / RM;
shared uint tile_w[BK][BM + 1];
shared uint tile_x[BK][BN + 1];

/// Where the invocation's column of x is: an output pixel.
struct Column {
  uint index;    // in the tile
  uint from;     // of the image and group in x
  int ih0, iw0;  // its window's corner
  bool exists;   // whether the image has it
};

Column column_of(uint n0, uint z, uint pixels) {
  Column c;
  c.index = gl_LocalInvocationID.x % BN;
  c.from = z / groups * x_n + z % groups * ic_count * x_c;
  const uint pixel = n0 + c.index, oh = pixel / out_w, ow = pixel - oh * out_w;
  c.ih0 = int(oh * stride_h) - pad_h;
  c.iw0 = int(ow * stride_w) - pad_w;
  c.exists = pixel < pixels;
  return c;
}

/// Words of k from q0 on of the tile's rows of w.
void load_w(uint m0, uint g, uint q0, uint k_words) {
  [[unroll]] for (uint e = gl_LocalInvocationID.x; e < BM * BK; e += LOCAL_X) {
    const uint q = e % BK, oc = g * oc_count + min(m0 + e / BK, oc_count - 1u);
    const uint word = integer_word(uint64_t(w_ptr), oc * k_words + min(q0 + q, k_words - 1u));
    tile_w[q][e / BK] = q0 + q < k_words ? word : 0u;
  }
}

/// Four channels of x from `ic0` on. Padding is x's zero point; channels that are none add nothing,
/// to sums of x either.
uint x_word(uint at, uint ic0, uint ic_end, bool inside, int x_shift) {
  uint word = 0u;
  [[unroll]] for (uint i = 0u; i < 4u; i++) {
    const bool exists = ic0 + i < ic_end, counts = inside && exists;
    int v = int(x_raw(counts ? at + (ic0 + i) * x_c : 0u)) - X_OFFSET;
    v = counts ? v : x_shift;
    if (!exists) v = 0;
    word |= (uint(v) & 0xffu) << (8u * i);
  }
  return word;
}

/// Words of k from q0 on of the invocation's column.
void load_x(Column c, uint q0, uint k_words, uint words, int x_shift) {
  [[unroll]] for (uint dq = gl_LocalInvocationID.x / BN; dq < BK; dq += LOCAL_X / BN) {
    const uint q = q0 + dq, tap = q / words, ic0 = (q - tap * words) * 4u;
    const uint kh = tap / k_w, kw = tap - kh * k_w;
    uint ih, iw;
    const bool in_rows = conv_source(c.ih0 + int(kh * dil_h), lhs_h, in_h, ih);
    const bool in_cols = conv_source(c.iw0 + int(kw * dil_w), lhs_w, in_w, iw);
    const bool inside = c.exists && in_rows && in_cols;
    const uint at = c.from + ih * x_h + iw * x_w;
    tile_x[dq][c.index] = x_word(at, ic0, q < k_words ? ic_count : 0u, inside, x_shift);
  }
}

void add_products(uint tx, uint ty, inout int acc[RM][RN], inout int x_sums[RN]) {
  [[unroll]] for (uint q = 0u; q < BK; q++) {
    uint w[RM], x[RN];
    [[unroll]] for (uint i = 0u; i < RM; i++) w[i] = tile_w[q][ty + i * THREADS_M];
    [[unroll]] for (uint j = 0u; j < RN; j++) x[j] = tile_x[q][tx + j * THREADS_N];
    [[unroll]] for (uint j = 0u; j < RN; j++) {
      [[unroll]] for (uint i = 0u; i < RM; i++) acc[i][j] += integer_dot(w[i], x[j]);
#if W_SHIFTED
      x_sums[j] += integer_dot(x[j], 0x01010101u);
#endif
    }
  }
}

void main() {
  const uint thread = gl_LocalInvocationID.x, tx = thread % THREADS_N, ty = thread / THREADS_N;
  const uint m0 = gl_WorkGroupID.y * BM, n0 = gl_WorkGroupID.x * BN, z = gl_WorkGroupID.z;
  // Read once: parameters in memory are read again behind a barrier.
  const uint g = z % groups, pixels = CONV_PIXELS, taps = CONV_TAPS;
  const uint words = (ic_count + 3u) / 4u, k_words = taps * words;
  const int x_shift = x_shift_of_all();
  const Column column = column_of(n0, z, pixels);
  int acc[RM][RN], x_sums[RN];
  [[unroll]] for (uint j = 0u; j < RN; j++) {
    x_sums[j] = 0;
    [[unroll]] for (uint i = 0u; i < RM; i++) acc[i][j] = 0;
  }
  for (uint q0 = 0u; q0 < k_words; q0 += BK) {
    load_w(m0, g, q0, k_words);
    load_x(column, q0, k_words, words, x_shift);
    barrier();
    add_products(tx, ty, acc, x_sums);
    barrier();
  }
  EACH_STORE(r, RM * RN) {
    const uint m = m0 + ty + r / RN * THREADS_M, oc = g * oc_count + m;
    const uint p = n0 + tx + r % RN * THREADS_N;
    int v, x_sum;
    PICK(q, r, RM * RN, v = acc[q / RN][q % RN]; x_sum = x_sums[q % RN])
    if (m >= oc_count || p >= pixels) continue;
    v -= x_shift * w_sums_raw(oc);
#if W_SHIFTED
    v -= w_shift_of(oc) * (x_sum - int(ic_count * taps) * x_shift);
#endif
    y_store((z * oc_count + m) * pixels + p, v);
  }
}
