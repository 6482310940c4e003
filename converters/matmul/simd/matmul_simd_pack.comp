// y[z][t][r][c] = x[z][r][t * WIDTH + c], zero where r >= rows or t * WIDTH + c >= cols: an operand
// of a matrix product in the order that matmul_simd reads, on CPU drivers (simd.glsl).
//
// y: element (z, t, r, c) at z * y_z + t * y_t + r * y_r + c; WIDTH is a multiple of 2 LANES.
// BY_ROWS: x is fp32, its rows are neighbours (s_row = 1) and go in RUNS, a multiple of 4: blocks
// are transposed. BY_COLS: x is fp32, its columns are neighbours (s_col = 1) and go in WIDTH. Else
// x may have any strides. MOVED: cols >= WIDTH, and the last tile is moved back to end with them.
// Grid: (tiles, ceil(rows_padded / RUNS), z), BY_ROWS (ceil(rows_padded / RUNS), tiles, z):
// neighbours read the same pages of x.

#include "batch.glsl"

#if MOVED
#define COLUMN(t) min((t) * WIDTH, cols - WIDTH)
#else
#define COLUMN(t) ((t) * WIDTH)
#endif

#if BY_ROWS

void main() {
  const uint t = simd_uniform(gl_WorkGroupID.y), z = simd_uniform(gl_WorkGroupID.z);
  const uint r = simd_uniform(gl_WorkGroupID.x) * RUNS, lane = gl_SubgroupInvocationID;
  tv_ref_f32 from = simd_at(x_ptr, BATCH_OFFSET(z, s) + min(r, rows - RUNS));
  SIMD_UNROLL for (uint c = 0u; c < WIDTH; c += 2u * LANES) {
    const uint col = COLUMN(t) + c;
    const bool left = col + lane < cols && r < rows, right = col + LANES + lane < cols && r < rows;
    SIMD_UNROLL for (uint k4 = 0u; k4 < RUNS / 4u; k4++) {
      vec4 a = vec4(0.0), b = vec4(0.0);
      SIMD_UNROLL for (uint i = 0u; i < LANES; i++) {
        const bvec4 here = bvec4(lane == i);
        a = mix(a, simd_vec4(simd_at(from, min(col + i, cols - 1u) * s_col), k4), here);
        b = mix(b, simd_vec4(simd_at(from, min(col + LANES + i, cols - 1u) * s_col), k4), here);
      }
      simd_held held[4];
      [[unroll]] for (uint k = 0u; k < 4u; k++) {
        tv_ref_f32 to = simd_at(y_ptr, z * y_z + t * y_t + (r + 4u * k4 + k) * y_r + c);
        held[k] = simd_store2(to, mix(0.0, a[k], left), mix(0.0, b[k], right));
      }
      SIMD_WAIT
      [[unroll]] for (uint k = 0u; k < 4u; k++) simd_release(held[k]);
    }
  }
}

#elif BY_COLS

void main() {
  const uint t = simd_uniform(gl_WorkGroupID.x), z = simd_uniform(gl_WorkGroupID.z);
  const uint r = simd_uniform(gl_WorkGroupID.y) * RUNS;
  SIMD_UNROLL for (uint i = 0u; i < RUNS; i++) {
    const uint row = min(r + i, rows_padded - 1u);
    tv_ref_f32 from = simd_at(x_ptr, BATCH_OFFSET(z, s) + min(row, rows - 1u) * s_row + t * WIDTH);
    tv_ref_f32 to = simd_at(y_ptr, z * y_z + t * y_t + row * y_r);
    const bool inside = row < rows;
    simd_held held[WIDTH / (2u * LANES)];
    [[unroll]] for (uint c = 0u; c < WIDTH; c += 2u * LANES) {
      const float a = simd_load(simd_at(from, c)), b = simd_load(simd_at(from, c + LANES));
      held[c / (2u * LANES)] = simd_store2(simd_at(to, c), mix(0.0, a, inside),
          mix(0.0, b, inside));
    }
    SIMD_WAIT
    [[unroll]] for (uint c = 0u; c < WIDTH / (2u * LANES); c++) simd_release(held[c]);
  }
}

#else

float element(uint from, uint r, uint col) {
  const bool inside = r < rows && col < cols;
  const float v = float(x_raw(from + (inside ? r * s_row + col * s_col : 0u)));
  return inside ? v : 0.0;
}

void main() {
  const uint t = gl_WorkGroupID.x, z = gl_WorkGroupID.z, lane = gl_SubgroupInvocationID;
  const uint from = BATCH_OFFSET(z, s), to = z * y_z + t * y_t;
  for (uint i = 0u; i < RUNS; i++) {
    const uint r = min(gl_WorkGroupID.y * RUNS + i, rows_padded - 1u);
    for (uint c = 0u; c < WIDTH; c += 2u * LANES) {
      const uint col = COLUMN(t) + c + lane;
      simd_release(simd_store2(simd_at(y_ptr, to + r * y_r + c), element(from, r, col),
                               element(from, r, col + LANES)));
    }
  }
}

#endif
