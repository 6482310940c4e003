// y[0]: whether any of `count` integers x[i · x_step] is not OFFSET. One workgroup.

shared int found;

void main() {
  const uint id = gl_LocalInvocationID.x;
  if (id == 0u) found = 0;
  barrier();
  for (uint i = id; i < count; i += LOCAL_X) {
    if (int(x_raw(i * x_step)) != OFFSET) found = 1;
  }
  barrier();
  if (id == 0u) y_raw_store(0u, found);
}
