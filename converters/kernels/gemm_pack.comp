// y[z][t][r][c] = x[z][r][t * LOCAL_X + c], zero where r >= rows or t * LOCAL_X + c >= cols: an
// operand of a matrix product in the order that gemm_lane reads.
//
// x: any strides. y: element (z, t, r, c) at z * y_z + t * y_t + r * y_r + c.
// Grid: (tiles, rows_padded / LOCAL_Y, z); local (tile width, rows).

#include "batch.glsl"

void main() {
  const uint c = gl_LocalInvocationID.x, t = gl_WorkGroupID.x, z = gl_WorkGroupID.z;
  const uint r = gl_WorkGroupID.y * LOCAL_Y + gl_LocalInvocationID.y;
  if (r >= rows_padded) return;
  const uint col = t * LOCAL_X + c;
  float v = 0.0;
  if (r < rows && col < cols) v = float(x_raw(BATCH_OFFSET(z, s) + r * s_row + col * s_col));
  y_raw_store(z * y_z + t * y_t + r * y_r + c, v);
}
