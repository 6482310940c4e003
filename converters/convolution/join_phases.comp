// y[n, g · oc + c, oh, ow] = element (n, (g · phases + phase) · oc + c, qh + more_h, qw + more_w)
// of a tensor of phases, where oh + start_h = stride_h · qh + rh, and likewise for w. Phases below
// split_h are in one tensor, at place rh, the others in another, at place rh - split_h, with a row
// more before the first (more_h is 1); by w there are two of each.
//
// t0 … t3: number 2 · (rh >= split_h) + (rw >= split_w); those that are none are t0 again.
// y: planes × out_h × out_w, planes being n × g × oc. One output an invocation.

#include "join_phases.glsl"

void main() {
  const uint id = tv_group() * LOCAL_X + gl_LocalInvocationID.x;
  if (id >= outputs) return;
  const uint row = id / out_w, ow = id - row * out_w;
  const uint plane = row / out_h, oh = row - plane * out_h;
  const uint uh = oh + start_h, uw = ow + start_w;
  const uint qh = uh / stride_h, qw = uw / stride_w;
  const JoinPhase h = join_phase(uh - qh * stride_h, split_h, stride_h);
  const JoinPhase w = join_phase(uw - qw * stride_w, split_w, stride_w);
  const uint at = join_row(plane / oc, plane % oc, qh, h, w) + qw;
  y_T v;
  switch (2u * h.part + w.part) {
    case 0u: v = y_T(t0_load(at)); break;
    case 1u: v = y_T(t1_load(at)); break;
    case 2u: v = y_T(t2_load(at)); break;
    default: v = y_T(t3_load(at)); break;
  }
  y_store(id, v);
}
