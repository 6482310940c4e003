// dst[i] = src[i] for element i in row-major order, src through any strides. Grid: flat; each
// invocation copies UNROLL elements (with VEC4 vectors of four), one workgroup's width apart.

void main() {
#ifdef VEC4
  const uint i = 4u * (tv_group() * LOCAL_X + gl_LocalInvocationID.x);
  if (i < numel) dst_store4(i, src_load4(i));
#else
  const uint first = tv_group() * (LOCAL_X * UNROLL) + gl_LocalInvocationID.x;
  for (uint k = 0; k < UNROLL; ++k) {
    const uint i = first + k * LOCAL_X;
    if (i < numel) dst_store(i, src_load(i));
  }
#endif
}
