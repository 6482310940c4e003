// Behind step t: entries of the batch that have no such step keep their states, and their y is 0.
// Of hidden, cell: [batch][H], what they were before the step. y_0: where y of the step begins.

void main() {
  const uint id = tv_group() * LOCAL_X + gl_LocalInvocationID.x;
  if (id >= elements || int(t) < int(lengths_load(id / H))) return;
  hidden_out_store(id, float(hidden_load(id)));
#if IS_LSTM
  cell_out_store(id, float(cell_load(id)));
#endif
#if HAS_Y
  y_store(y_0 + id, y_T(0));
#endif
}
