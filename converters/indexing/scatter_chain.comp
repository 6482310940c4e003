// Links entries that name the same row: head[r] is the first entry i with key[i] == r, next[i] the
// first j > i with key[j] == key[i], `entries` where there is none. So each row's entries are found
// in ascending order, and sums over them are deterministic. The first `rows` invocations make head,
// the `entries` after them next.

void main() {
  const uint id = tv_group() * LOCAL_X + gl_LocalInvocationID.x;
  if (id >= rows + entries) return;
  const bool linking = id >= rows;
  const int wanted = linking ? key_load(id - rows) : int(id);
  uint at = linking ? id - rows + 1u : 0u;
  while (at < entries && key_load(at) != wanted) ++at;
  if (linking) {
    next_store(id - rows, int(at));
  } else {
    head_store(id, int(at));
  }
}
