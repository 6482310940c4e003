// y[z][i]: which row the exchanges of x[z] (from 1 on, one after the other) bring to place i;
// INVERSE: the place that row i comes to. One result an invocation; x: [matrices, exchanges].

void main() {
  const uint id = tv_group() * LOCAL_X + gl_LocalInvocationID.x;
  if (id >= total) return;
  const uint z = id / count;
  int at = int(id - z * count);
  for (uint s = 0u; s < exchanges; ++s) {
    const int k = int(INVERSE != 0 ? s : exchanges - 1u - s);
    const int other = x_load(z * exchanges + uint(k)) - 1;
    tv_bad_index(other < 0 || other >= int(count));
    at = at == k ? other : at == other ? k : at;
  }
  y_store(id, at);
}
