// The rows of each of `tiles` tiles of ROWS rows, all of which are of one group: plan[3 t] is the
// group, plan[3 t + 1] the first row, plan[3 t + 2] how many follow it. Rows behind all groups are
// those of group `groups`. What tiles are left repeat the last one. Grid: one invocation a tile.

void main() {
  const uint t = tv_group() * LOCAL_X + gl_LocalInvocationID.x;
  if (t >= tiles) return;
  uint begin = 0u, before = 0u;  // the group's first row; tiles of the groups before it
  uint group = 0u, first = 0u, last = 0u;
  for (uint e = 0u; e <= groups; e++) {
    uint end = rows;
    if (e < groups) {
      const ends_T given = ends_raw(e);
      end = given <= ends_T(begin) ? begin : given >= ends_T(rows) ? rows : uint(given);
    }
    if (begin == end) continue;
    const uint own = (end - begin + ROWS - 1u) / ROWS;
    group = e;
    first = begin + min(t - before, own - 1u) * ROWS;
    last = min(first + ROWS, end) - 1u;
    before += own;
    begin = end;
    if (t < before) break;
  }
  plan_store(3u * t, int(group));
  plan_store(3u * t + 1u, int(first));
  plan_store(3u * t + 2u, int(last - first));
}
