// Powers of two that bring groups of 16 rows or columns of an fp32 operand into float16's range,
// and what float16 pieces of them (matrix.glsl) may lose.
//
// y[z][0][g] = 2^e with 2^e * 2^14 <= largest |x| of the group < 2^e * 2^15: x / y fits float16. 0
// where scaling does not reach: exponents too large or small, infinities, NaN. A group of zeros
// gets 1.
//
// y[z][1][g]: pieces are off by 2^-40 of the group's largest number at most (one piece alone,
// beside its rounding to 11 bits: by four times that). So a sum of |S| products whose factors lie
// 2^d and 2^e below the largest on their geometric means is off by 2^(d + e - 40) of |S| times the
// geometric mean of its products, which is no more than the sum of their magnitudes. S are the
// places where neither factor is 0. With D and E the sums of all such distances of a row and a
// column, of which v and w of k_count numbers are 0, d + e <= (D + E) / (k_count - v - w), and that
// is at most SPREAD where (D / SPREAD + v) / k_count + (E / SPREAD + w) / k_count <= 1. y has these
// two terms, the largest of the group's spans that are not all 0; 2 where scaling does not reach.
// x: any strides, s_span along the spans, s_k along k; SPANS_NEXT: neighbours in memory are those
// of several spans, else of one.
// Grid: (groups, 1, z); local 256: 16 invocations a span.

#include "batch.glsl"

shared int sums[16][16];
shared int counts[16][16];
shared int tops[16][16];

/// Reads every 16th element of the span that begins at `from`, from the part-th on.
void measure(uint from, uint row, uint part, bool exists) {
  int sum = 0, count = 0, top = -1000;
  if (exists) {
    for (uint k0 = part; k0 < k_count; k0 += 128u) {
      int e[8];
      [[unroll]] for (uint i = 0u; i < 8u; i++) {
        const uint k = k0 + i * 16u;
        const uint bits = k < k_count ? floatBitsToUint(x_raw(from + k * s_k)) & 0x7fffffffu : 0u;
        e[i] = int(max(bits >> 23, min(bits, 1u)));  // 1 for denormals, 0 for zeros
      }
      [[unroll]] for (uint i = 0u; i < 8u; i++) {
        top = max(top, e[i]);
        sum += e[i];
        count += e[i] != 0 ? 1 : 0;
      }
    }
  }
  sums[row][part] = sum;
  counts[row][part] = count;
  tops[row][part] = top;
}

void add_parts(uint row) {
  for (uint p = 1u; p < 16u; p++) {
    sums[row][0] += sums[row][p];
    counts[row][0] += counts[row][p];
    tops[row][0] = max(tops[row][0], tops[row][p]);
  }
}

void store(uint z, uint g) {
  int highest = 0, lost = 0;
  for (uint r = 0u; r < 16u; r++) highest = max(highest, tops[r][0]);
  for (uint r = 0u; r < 16u; r++) {
    const int numbers = counts[r][0], zeros = int(k_count) - numbers;
    if (numbers > 0) lost = max(lost, highest * numbers - sums[r][0] + SPREAD * zeros);
  }
  const bool fits = highest == 0 || (highest > 60 && highest < 195);
  const uint e = uint(highest == 0 ? 127 : highest - 14);
  y_raw_store(z * 2u * groups + g, fits ? uintBitsToFloat(e << 23) : 0.0);
  y_raw_store(z * 2u * groups + groups + g,
      fits ? float(lost) / (float(SPREAD) * float(k_count)) : 2.0);
}

void main() {
  const uint z = gl_WorkGroupID.z, g = gl_WorkGroupID.x, tid = gl_LocalInvocationID.x;
#if SPANS_NEXT
  const uint row = tid % 16u, part = tid / 16u;
#else
  const uint row = tid / 16u, part = tid % 16u;
#endif
  const uint span = g * 16u + row;
  measure(BATCH_OFFSET(z, s) + span * s_span, row, part, span < span_count);
  barrier();
  if (tid < 16u) add_parts(tid);
  barrier();
  if (tid == 0u) store(z, g);
}
