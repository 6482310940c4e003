// Writes one input of a concatenation into its place:
// y[o, from + c, k] = x[o, c, k]. One element of x an invocation.

void main() {
  const uint id = tv_group() * LOCAL_X + gl_LocalInvocationID.x;
  if (id >= elements) return;
  const uint o = id / slab;
  y_store(o * out_slab + from + (id - o * slab), y_T(x_load(id)));
}
