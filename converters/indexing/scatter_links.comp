// Entries that name the same row, without a look at the rows: next[i] is the first j > i with
// key[j] == key[i], `entries` where there is none; first[i] is 1 if no j < i has that key. One
// entry an invocation.

void main() {
  const uint id = tv_group() * LOCAL_X + gl_LocalInvocationID.x;
  if (id >= entries) return;
  const int own = key_load(id);
  uint before = 0u;
  while (before < id && key_load(before) != own) ++before;
  uint after = id + 1u;
  while (after < entries && key_load(after) != own) ++after;
  first_store(id, before == id ? 1 : 0);
  next_store(id, int(after));
}
