// y[0]: whether any of `count` integers x[i · x_step] is not OFFSET: kernels of bytes on matrix
// units (matrix.glsl) ask it of zero points. One workgroup.

shared int found[LOCAL_X];

void main() {
  const uint id = gl_LocalInvocationID.x;
  int any = 0;
  for (uint i = id; i < count; i += LOCAL_X) any |= int(x_raw(i * x_step)) ^ OFFSET;
  found[id] = any;
  barrier();
  if (id != 0u) return;
  for (uint i = 1u; i < LOCAL_X; i++) any |= found[i];
  y_raw_store(0u, any != 0 ? 1 : 0);
}
