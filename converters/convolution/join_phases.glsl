// Where join_phases.comp finds an element.

/// A phase along one dimension: in which tensors it is, at which place of how many.
struct JoinPhase {
  uint part, place, count;
};

JoinPhase join_phase(uint phase, uint split, uint stride) {
  const bool second = phase >= split;
  return JoinPhase(mix(0u, 1u, second), phase - mix(0u, split, second),
                   mix(split, stride - split, second));
}

/// The element of its tensor where q of the row begins.
uint join_row(uint image, uint channel, uint q, JoinPhase h, JoinPhase w) {
  const uint phase = (image * h.count + h.place) * w.count + w.place;
  const uint line = (phase * oc + channel) * (rows_h + h.part) + q + h.part;
  return line * (rows_w + w.part) + w.part;
}
