// The steps of a recurrent network from `begin` to `end`, one after the other:
//
//   LSTM             i, f, o = σ(…), g = tanh(…), c = f c + i g, h = o tanh(c)
//   GRU              r, z = σ(…), n = tanh(x + r (W h + b)), h = (1 - z) n + z h
//   GRU_RESET_FIRST  the same with n = tanh(x + W (r h) + b)
//   TANH, RELU       h = tanh(…), max(…, 0)
//
// where … is x + W h + b, a gate's part of each. gates: x, [steps][batch][GATES · H] by strides;
// weight: W in vectors of four steps of k, [K / 4][GATES][H] (recurrent_pack.comp); bias: b,
// [GATES · H]; hidden, cell: [batch][H] at the first step. y: h after each step; last, last_cell:
// after the last one, as results or for the next launch (HAS_LAST, HAS_LAST_CELL). lengths: steps
// of each entry of the batch: past them the state stays, and y is 0. REVERSE: entries are walked
// from their last step to the first.
//
// A workgroup has ENTRIES entries of the batch, with their states in shared memory; an invocation
// has every LOCAL_X-th unit. PARTS > 1: of one step, so many workgroups share the units. K: H in
// whole blocks of UNROLL vectors; what is past H is 0. PLACES: where gates i f g o, or r z n, are
// among those of gates and bias.
// Grid: flat, (ceil(batch / ENTRIES) · PARTS).

const uint VECTORS = K / 4u;
const uint PLACE[GATES] = uint[GATES](PLACES);

// The states before a step and behind it, by turns; GRU_RESET_FIRST: the states, and r h.
shared float state[2][ENTRIES][K];
#if KIND == LSTM
shared float cells[ENTRIES][H];
#elif KIND == GRU_RESET_FIRST
shared float update[ENTRIES][H];  // z
#endif

#define EACH_ENTRY(e) [[unroll]] for (uint e = 0u; e < ENTRIES; e++)

/// An entry's number in the batch; those past its end repeat the last one.
uint entry_of(uint first, uint e) { return min(first + e, batch - 1u); }

void find_lengths(uint first, out uint length[ENTRIES]) {
  EACH_ENTRY(e) {
    length[e] = steps;
#if LENGTHS
    length[e] = uint(clamp(int(lengths_load(entry_of(first, e))), 0, int(steps)));
#endif
  }
}

void load_states(uint first) {
  for (uint k = gl_LocalInvocationID.x; k < K; k += LOCAL_X) {
    EACH_ENTRY(e) {
      const uint at = entry_of(first, e) * H + min(k, H - 1u);
      const float h = k < H ? float(hidden_load(at)) : 0.0;
      state[0][e][k] = h;
      state[1][e][k] = h;
#if KIND == LSTM
      if (k < H) cells[e][k] = float(cell_load(at));
#endif
    }
  }
}

/// A step of an entry.
struct Turn {
  uint place;  // among the steps of gates
  uint from;   // of its gates
  bool lives;  // whether the entry has it
};

void find_turns(uint t, uint first, uint length[ENTRIES], out Turn turn[ENTRIES]) {
  EACH_ENTRY(e) {
    const bool lives = t < length[e];
    uint place = t;
#if REVERSE
    if (lives) place = length[e] - 1u - t;
#endif
    turn[e] = Turn(place, place * gates_t + entry_of(first, e) * gates_b, lives);
  }
}

/// x of a unit's gate g at a step.
float x_of(Turn turn, uint g, uint unit) {
  return float(gates_raw(turn.from + (PLACE[g] * H + unit) * gates_g));
}

/// W h + b of a unit's gates from … to - 1, where h is state[which].
void sum_gates(uint which, uint unit, uint from, uint to, out float sums[GATES][ENTRIES]) {
  [[unroll]] for (uint g = from; g < to; g++) {
#if BIAS
    const float b = float(bias_load(PLACE[g] * H + unit));
#else
    const float b = 0.0;
#endif
    EACH_ENTRY(e) sums[g][e] = b;
  }
  for (uint block = 0u; block < VECTORS; block += UNROLL) {
    vec4 part[GATES][ENTRIES];
    [[unroll]] for (uint v = 0u; v < UNROLL; v++) {
      const uint k4 = block + v, k = 4u * k4;
      vec4 h[ENTRIES];
      EACH_ENTRY(e) {
        h[e] = vec4(state[which][e][k], state[which][e][k + 1u], state[which][e][k + 2u],
                    state[which][e][k + 3u]);
      }
      [[unroll]] for (uint g = from; g < to; g++) {
        const vec4 w = vec4(weight_vec4(((k4 * GATES + g) * H + unit) * 4u));
        EACH_ENTRY(e) part[g][e] = v == 0u ? w * h[e] : fma(w, h[e], part[g][e]);
      }
    }
    [[unroll]] for (uint g = from; g < to; g++) {
      EACH_ENTRY(e) {
        sums[g][e] += (part[g][e].x + part[g][e].y) + (part[g][e].z + part[g][e].w);
      }
    }
  }
}

#if KIND == GRU_RESET_FIRST
/// r h and z of a unit.
void reset_unit(uint unit, Turn turn[ENTRIES]) {
  float sums[GATES][ENTRIES];
  sum_gates(0u, unit, 0u, 2u, sums);
  EACH_ENTRY(e) {
    state[1][e][unit] = tv_sigmoid(sums[0][e] + x_of(turn[e], 0u, unit)) * state[0][e][unit];
    update[e][unit] = tv_sigmoid(sums[1][e] + x_of(turn[e], 1u, unit));
  }
}
#endif

/// h of a unit from h before the step and W h + b of its gates.
float next_of(uint e, uint unit, Turn turn, float before, float sums[GATES]) {
#if KIND == LSTM
  const float i = tv_sigmoid(sums[0] + x_of(turn, 0u, unit));
  const float f = tv_sigmoid(sums[1] + x_of(turn, 1u, unit));
  const float g = tv_tanh(sums[2] + x_of(turn, 2u, unit));
  const float o = tv_sigmoid(sums[3] + x_of(turn, 3u, unit));
  const float c = f * cells[e][unit] + i * g;
  if (turn.lives) cells[e][unit] = c;
  return o * tv_tanh(c);
#elif KIND == GRU
  const float r = tv_sigmoid(sums[0] + x_of(turn, 0u, unit));
  const float z = tv_sigmoid(sums[1] + x_of(turn, 1u, unit));
  const float n = tv_tanh(x_of(turn, 2u, unit) + r * sums[2]);
  return (1.0 - z) * n + z * before;
#elif KIND == GRU_RESET_FIRST
  const float n = tv_tanh(sums[2] + x_of(turn, 2u, unit)), z = update[e][unit];
  return (1.0 - z) * n + z * before;
#elif KIND == TANH
  return tv_tanh(sums[0] + x_of(turn, 0u, unit));
#else
  const float sum = sums[0] + x_of(turn, 0u, unit);
  return sum < 0.0 ? 0.0 : sum;
#endif
}

/// A step of a unit, from state[now] to the other one, or, GRU_RESET_FIRST, in place.
void step_unit(uint unit, uint now, uint first, Turn turn[ENTRIES]) {
  float sums[GATES][ENTRIES];
#if KIND == GRU_RESET_FIRST
  sum_gates(1u, unit, 2u, 3u, sums);
  const uint next = 0u;
#else
  sum_gates(now, unit, 0u, GATES, sums);
  const uint next = 1u - now;
#endif
  EACH_ENTRY(e) {
    float own[GATES];
    [[unroll]] for (uint g = 0u; g < GATES; g++) own[g] = sums[g][e];
    const float before = state[now][e][unit];
    const float h = next_of(e, unit, turn[e], before, own);
    state[next][e][unit] = turn[e].lives ? h : before;
#if HAS_Y
    if (first + e < batch) {
      y_store((turn[e].place * batch + first + e) * H + unit, turn[e].lives ? h : 0.0);
    }
#endif
  }
}

void store_last(uint unit, uint now, uint first) {
  EACH_ENTRY(e) {
    if (first + e >= batch) continue;
    const uint at = (first + e) * H + unit;
#if HAS_LAST
    last_store(at, state[now][e][unit]);
#endif
#if HAS_LAST_CELL
    last_cell_store(at, cells[e][unit]);
#endif
  }
}

void main() {
  const uint first = tv_group() / PARTS * ENTRIES;
  if (first >= batch) return;
  const uint units = (H + PARTS - 1u) / PARTS, begin_unit = tv_group() % PARTS * units;
  const uint my_unit = begin_unit + gl_LocalInvocationID.x, end_unit = min(H, begin_unit + units);
  uint length[ENTRIES];
  find_lengths(first, length);
  load_states(first);
  barrier();
  uint now = 0u;
  for (uint t = begin; t < end; ++t) {
    Turn turn[ENTRIES];
    find_turns(t, first, length, turn);
#if KIND == GRU_RESET_FIRST
    for (uint unit = my_unit; unit < end_unit; unit += LOCAL_X) reset_unit(unit, turn);
    barrier();
#endif
    for (uint unit = my_unit; unit < end_unit; unit += LOCAL_X) {
      step_unit(unit, now, first, turn);
    }
#if KIND != GRU_RESET_FIRST
    now = 1u - now;
#endif
    barrier();
  }
  for (uint unit = my_unit; unit < end_unit; unit += LOCAL_X) store_last(unit, now, first);
}
