// y[o, i, k] = x[o, at[o, k, i], k] for the first `limit` positions of each sorted line, and the
// position itself to idx.
//
// x: lines of `count` elements, `inner` apart; at: lines `pitch` apart, read from `from` elements
// on. One result an invocation. Defines: INDICES.

void main() {
  const uint id = tv_group() * LOCAL_X + gl_LocalInvocationID.x;
  if (id >= outputs) return;
  const uint line = id / inner, k = id - line * inner;
  const uint outer = line / limit, i = line - outer * limit;
  const uint at_i = min(uint(at_raw(from + (outer * inner + k) * pitch + i)), count - 1u);
  y_store(id, y_T(x_load((outer * count + at_i) * inner + k)));
#if INDICES
  idx_store(id, idx_T(at_i));
#endif
}
