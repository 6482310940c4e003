// Convolution in two dimensions (DEPTH: three) as a product of matrices: rows are output channels,
// columns output pixels, k runs over (input channel, [kd,] kh, kw); the matrix of pixels is never
// stored.
//
// Tiles of BM x BN outputs a workgroup and RM x RN an invocation, BK steps of k at a time through
// shared memory; each invocation loads one column of pixels. x, w: any strides. Sums are fp32, kept
// in blocks of BLOCK steps of k: the rounding error grows with k / BLOCK and not with k. SPLIT
// workgroups share the steps of k of a tile, k_per_split each, a multiple of BK; y is then
// [SPLIT][n * groups][…] of sums (matmul_split_k.comp), the first with the bias. Grid: (ceil(pixels
// / BN), ceil(oc_count / BM), SPLIT * n * groups); local (BM / RM) * (BN / RN), a multiple of BN.

#include "conv_geometry.glsl"
#include "epilogue.glsl"

const uint THREADS_N = BN / RN, THREADS_M = BM / RM;
shared float tile_w[BK][BM + 1];
shared float tile_x[BK][BN + 1];

// Where an invocation is: its workgroup's tile begins at output channel m0 of group g and at output
// pixel n0; it has the outputs ty + i THREADS_M, tx + j THREADS_N of it, and loads weights from
// w_base on, pixels from x_base on.
uint thread, tx, ty, m0, n0, g, x_base, w_base, pixels, taps;
uint k_first, k_end;  // steps of k of the workgroup
// The column of pixels that it loads, and where its window begins.
uint column, pixel;
int id0, ih0, iw0;

float acc[RM][RN], block[RM][RN];  // its sums, and those of the block of k so far

#define EACH_SUM [[unroll]] for (uint i = 0u; i < RM; i++) [[unroll]] for (uint j = 0u; j < RN; j++)

void find_tile() {
  thread = gl_LocalInvocationID.x;
  tx = thread % THREADS_N;
  ty = thread / THREADS_N;
  m0 = gl_WorkGroupID.y * BM;
  n0 = gl_WorkGroupID.x * BN;
  pixels = CONV_PIXELS;
  taps = CONV_TAPS;
#if SPLIT > 1
  const uint z = gl_WorkGroupID.z % planes;
  k_first = gl_WorkGroupID.z / planes * k_per_split;
  k_end = min(ic_count * taps, k_first + k_per_split);
#else
  const uint z = gl_WorkGroupID.z;
  k_first = 0u;
  k_end = ic_count * taps;
#endif
  g = z % groups;
  x_base = z / groups * x_n + g * ic_count * x_c;
  w_base = w_0 + g * w_g;
}

void find_column() {
  column = thread % BN;
  pixel = n0 + column;
#ifdef DEPTH
  const uint line = pixel / out_w, ow = pixel - line * out_w;
  const uint od = line / out_h, oh = line - od * out_h;
  id0 = int(od * stride_d) - pad_d;
#else
  const uint oh = pixel / out_w, ow = pixel - oh * out_w;
#endif
  ih0 = int(oh * stride_h) - pad_h;
  iw0 = int(ow * stride_w) - pad_w;
}

// No branch in either load: all of them are in flight together.
void load_weights(uint k0) {
  [[unroll]] for (uint e = thread; e < BM * BK; e += LOCAL_X) {
    const uint dk = e % BK, m = e / BK, k = k0 + dk;
    const uint ic = k / taps;
    const ConvTap tap = conv_tap(k - ic * taps);
    const bool counts = m0 + m < oc_count && k < k_end;
    const uint at = w_base + (m0 + m) * w_oc + CONV_WEIGHT(ic, tap);
    const float v = float(w_raw(counts ? at : w_0));
    tile_w[dk][m] = counts ? v : 0.0;
  }
}

void load_pixels(uint k0) {
  [[unroll]] for (uint dk = thread / BN; dk < BK; dk += LOCAL_X / BN) {
    const uint k = k0 + dk;
    const uint ic = k / taps;
    const ConvTap tap = conv_tap(k - ic * taps);
    uint ih, iw, at = x_base + ic * x_c;
    const bool in_rows = conv_source(ih0 + int(tap.h * dil_h), lhs_h, in_h, ih);
    const bool in_cols = conv_source(iw0 + int(tap.w * dil_w), lhs_w, in_w, iw);
    bool counts = k < k_end && pixel < pixels && in_rows && in_cols;
#ifdef DEPTH
    uint id;
    counts = conv_source(id0 + int(tap.d * dil_d), lhs_d, in_d, id) && counts;
    at += id * x_d;
#endif
    const float v = float(x_raw(counts ? at + ih * x_h + iw * x_w : 0u));
    tile_x[dk][column] = counts ? v : 0.0;
  }
}

void multiply() {
  [[unroll]] for (uint k = 0u; k < BK; k++) {
    float a[RM], b[RN];
    [[unroll]] for (uint i = 0u; i < RM; i++) a[i] = tile_w[k][ty + i * THREADS_M];
    [[unroll]] for (uint j = 0u; j < RN; j++) b[j] = tile_x[k][tx + j * THREADS_N];
    EACH_SUM block[i][j] = fma(a[i], b[j], block[i][j]);
  }
}

void add_block() {
  EACH_SUM {
    acc[i][j] += block[i][j];
    block[i][j] = 0.0;
  }
}

void store() {
  EACH_STORE(r, RM * RN) {
    const uint m = m0 + ty + r / RN * THREADS_M, oc = g * oc_count + m;
    const uint p = n0 + tx + r % RN * THREADS_N;
    float v;
    PICK(q, r, RM * RN, v = acc[q / RN][q % RN])
    if (m >= oc_count || p >= pixels) continue;
#if BIAS
    if (k_first == 0u) v += float(bias_load(oc));
#endif
    y_store((gl_WorkGroupID.z * oc_count + m) * pixels + p, y_T(v));
  }
}

void main() {
  find_tile();
  find_column();
  EACH_SUM acc[i][j] = block[i][j] = 0.0;
  for (uint k0 = k_first; k0 < k_end; k0 += BK) {
    load_weights(k0);
    load_pixels(k0);
    barrier();
    multiply();
    if ((k0 + BK) % BLOCK == 0u || k0 + BK >= k_end) add_block();
    barrier();
  }
  store();
}
