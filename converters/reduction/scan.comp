// y[o, c, k] = x[o, 0, k] ∘ … ∘ x[o, c, k] for an associative ∘: SUM, PRODUCT, LOG_SUM_EXP, and
// MAXIMUM and MINIMUM, which also give the position of the extreme in idx; and of LINEAR,
// y[o, c, k] = factor[o, c, k] · y[o, c - 1, k] + x[o, c, k], where the first is x[o, 0, k].
//
// A line has `count` elements, `inner` apart; `rows` lines. Float sums and products carry what they
// round off, so that the error does not grow with the length. log Σ exp is kept as a maximum and
// Σ exp(x - maximum). Extremes follow torch: of equals the last, a nan before everything.
//
// PER_INVOCATION: an invocation has a line, UNROLL elements an iteration, because CPU drivers end
// long loops. Else a workgroup has a line: tiles of LOCAL_X · UNROLL elements, a run of UNROLL each
// invocation, whose totals are scanned in shared memory (Hillis and Steele 1986). Either order is
// fixed. Defines: OP, KEY (float, int or int64_t), FLOAT_KEY, TAKEN(v) (v as a KEY),
// PER_INVOCATION, UNROLL, INDICES.

#define SUM 0
#define PRODUCT 1
#define LOG_SUM_EXP 2
#define MAXIMUM 3
#define MINIMUM 4
#define LINEAR 5

#if OP == MAXIMUM || OP == MINIMUM
struct State {
  KEY key;
  uint at;  // `count`: nothing yet
};
State nothing() { return State(KEY(0), count); }
State state_of(KEY v, uint at) { return State(v, at); }
State join(State a, State b) {
  if (a.at == count) return b;
  if (b.at == count) return a;
#if FLOAT_KEY
  if (tv_isnan(b.key)) return b;
  if (tv_isnan(a.key)) return a;
#endif
#if OP == MAXIMUM
  return b.key >= a.key ? b : a;
#else
  return b.key <= a.key ? b : a;
#endif
}
KEY result_of(State s) { return s.key; }

#elif OP == LOG_SUM_EXP
struct State {
  float most, sum;
};
State nothing() { return State(-TV_INF, 0.0); }
State state_of(float v, uint at) { return State(v, 1.0); }
State join(State a, State b) {
  const float most = tv_max(a.most, b.most);
  // Equal by themselves where both are infinite.
  const float fa = a.most == most ? a.sum : a.sum * tv_exp(a.most - most);
  const float fb = b.most == most ? b.sum : b.sum * tv_exp(b.most - most);
  return State(most, fa + fb);
}
float result_of(State s) { return s.most + tv_log(s.sum); }

#elif OP == LINEAR
// What a part of a line makes of the y before it: factor · y + value.
struct State {
  float factor, value;
  uint some;  // 0: nothing yet. No factor, 0 or 1, would do where the next one is infinite or nan
};
State nothing() { return State(1.0, 0.0, 0u); }
State join(State a, State b) {
  if (a.some == 0u) return b;
  return State(a.factor * b.factor, b.factor * a.value + b.value, 1u);
}
float result_of(State s) { return s.value; }

#elif FLOAT_KEY
struct State {
  float value, lost;
};
State nothing() { return State(OP == SUM ? 0.0 : 1.0, 0.0); }
State state_of(float v, uint at) { return State(v, 0.0); }
State join(State a, State b) {
#if OP == SUM
  precise float value = a.value + b.value;
  precise float of_b = value - a.value;
  precise float lost = (a.value - (value - of_b)) + (b.value - of_b) + (a.lost + b.lost);
#else
  precise float value = a.value * b.value;
  precise float lost = tv_product_error(a.value, b.value, value) +
                       (a.value * b.lost + a.lost * b.value);
#endif
  // What is infinite would turn its own correction into a nan.
  return State(value, tv_isfinite(value) && tv_isfinite(lost) ? lost : 0.0);
}
// A product that is -0 stays so.
float result_of(State s) { return OP != SUM && s.lost == 0.0 ? s.value : s.value + s.lost; }

#else
struct State {
  KEY value;
};
State nothing() { return State(KEY(OP == SUM ? 0 : 1)); }
State state_of(KEY v, uint at) { return State(v); }
State join(State a, State b) {
#if OP == SUM
  return State(a.value + b.value);
#else
  return State(a.value * b.value);
#endif
}
KEY result_of(State s) { return s.value; }
#endif

#if OP == LINEAR
State state_at(uint at, uint c) { return State(float(factor_load(at)), float(x_load(at)), 1u); }
#else
State state_at(uint at, uint c) { return state_of(TAKEN(x_load(at)), c); }
#endif

void put(uint at, State s) {
  y_store(at, y_T(result_of(s)));
#if INDICES
  idx_store(at, idx_T(s.at));
#endif
}

uint line_start(uint row) {
  const uint outer = row / inner;
  return outer * count * inner + (row - outer * inner);
}

#if PER_INVOCATION
void take(uint start, uint c, inout State s) {
  const uint at = start + c * inner;
  s = join(s, state_at(at, c));
  put(at, s);
}

void main() {
  const uint row = tv_group() * LOCAL_X + gl_LocalInvocationID.x;
  if (row >= rows) return;
  const uint start = line_start(row);
  State s = nothing();
  uint c = 0u;
  for (; c + UNROLL <= count; c += UNROLL) {
    [[unroll]] for (uint j = 0u; j < UNROLL; ++j) take(start, c + j, s);
  }
  for (; c < count; ++c) take(start, c, s);
}

#else
shared State totals_[LOCAL_X];

void main() {
  const uint row = tv_group(), t = gl_LocalInvocationID.x;
  if (row >= rows) return;
  const uint start = line_start(row);
  State before = nothing();
  for (uint tile = 0u; tile < count; tile += LOCAL_X * UNROLL) {
    const uint first = tile + t * UNROLL;
    State own[UNROLL];
    State s = nothing();
    [[unroll]] for (uint j = 0u; j < UNROLL; ++j) {
      const uint c = first + j;
      if (c < count) s = join(s, state_at(start + c * inner, c));
      own[j] = s;
    }
    totals_[t] = s;
    barrier();
    for (uint reach = 1u; reach < LOCAL_X; reach <<= 1u) {
      if (t >= reach) s = join(totals_[t - reach], s);
      barrier();
      totals_[t] = s;
      barrier();
    }
    State ahead = before;
    if (t > 0u) ahead = join(before, totals_[t - 1u]);
    before = join(before, totals_[LOCAL_X - 1u]);
    barrier();
    [[unroll]] for (uint j = 0u; j < UNROLL; ++j) {
      const uint c = first + j;
      if (c < count) put(start + c * inner, join(ahead, own[j]));
    }
  }
}
#endif
