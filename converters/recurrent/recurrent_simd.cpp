// The tactic of CPU drivers: a launch, or more, for each step.

#include <algorithm>

#include "converters/kit/simd.h"
#include "converters/kit/steps.h"
#include "converters/recurrent/recurrent_parts.h"
#include "csrc/graph/strided.h"

namespace tv::rnn {
namespace {

constexpr int64_t kMostK = 64;  // of k in a launch: 256 of four gates compile for minutes

int64_t vector_width(const DeviceProfile& device) {
  return 2 * static_cast<int64_t>(device.subgroup_size);
}

/// How a product is cut: launches of `count` of k, the last one of what is left.
struct Parts {
  int64_t number, count;
};

Parts parts_of(int64_t hidden) {
  const int64_t wanted = (hidden + kMostK - 1) / kMostK;
  const int64_t count = ((hidden + wanted - 1) / wanted + 3) / 4 * 4;
  return {(hidden + count - 1) / count, count};
}

/// Part of a step: a product, and what is made of it.
struct Phase {
  const char* kind;  ///< in the kernel
  std::string_view gates;
};

std::vector<Phase> phases_of(const Kind& kind) {
  if (resets_first(kind)) return {{"RESET", "rz"}, {"NEW", "n"}};
  return {{kind.name, kind.gates}};
}

/// Whether lanes can read a value by address.
bool is_plain(const NodeContext& c, const Builder& b, ValueId id) {
  const Value& value = c.graph.value(id);
  return value.dtype == DType::kF32 && !value.view && is_dense(value.shape, b.strides_of(id));
}

/// Writes the steps of the tactic.
class Writer {
 public:
  Writer(const NodeContext& c, Builder& b, const Kind& kind, std::vector<Step>& steps)
      : c_(c),
        b_(b),
        kind_(kind),
        steps_(steps),
        hidden_(hidden_size(c)),
        width_(vector_width(c.device)),
        parts_(parts_of(hidden_)),
        reverses_(c.node.flag("reverse") && c.node.has("lengths")),
        gates_(c.node.input("gates")),
        gates_strides_(b.strides_of(gates_)) {}

  void write() {
    for (const Phase& phase : phases_of(kind_)) {
      weights_.push_back(
          packed_weight(c_, b_, {.gates = phase.gates, .k = hidden_, .fours = 1, .width = width_},
                        DType::kF32, steps_));
    }
    const int64_t count = *steps_of(c_).constant();
    // States of other types are made float32 first, by a launch of no steps; the last one gives
    // the results the types that they have.
    const int64_t first = is_float32("hidden") && is_float32("cell") ? 0 : 1;
    const int64_t launches = first + count + 1;
    const States states = states_between(c_, b_, kind_, launches);
    add_scratch();
    if (reverses_) reverse_gates();
    if (first != 0) steps_.push_back(hand_on(c_, b_, kind_, states, 0, launches, weights_[0]));
    for (int64_t t = 0; t < count; ++t) add_step(states, first + t, t);
    steps_.push_back(hand_on(c_, b_, kind_, states, launches - 1, launches, weights_[0]));
    if (reverses_ && wanted(c_, 0)) reverse(y_, {}, hidden_, c_.node.outputs[0]);
  }

 private:
  bool is_float32(const char* arg) const {
    return !c_.node.has(arg) || c_.dtype(arg) == DType::kF32;
  }

  int64_t tiles() const { return (hidden_ + width_ - 1) / width_; }

  int64_t rows() const {
    return std::clamp<int64_t>(typical(c_.graph, batch_of(c_)), 1, gates_of(kind_) == 1 ? 4 : 2);
  }

  void add_scratch() {
    if (parts_.number > 1) {
      sums_ =
          b_.scratch("sums", DType::kF32, {batch_of(c_), Expr(gates_of(kind_) * tiles() * width_)});
    }
    if (resets_first(kind_)) {
      const Shape shape = {batch_of(c_), Expr(hidden_)};
      reset_ = b_.scratch("reset", DType::kF32, shape);
      update_ = b_.scratch("update", DType::kF32, shape);
    }
  }

  // Where entries of different lengths are walked from their last step, gates and y lie in
  // scratch, in the order of the walk: addresses that lengths were part of would not be uniform.

  void reverse_gates() {
    const int64_t columns = gates_of(kind_) * hidden_;
    const Expr& batch = batch_of(c_);
    const ValueId ordered =
        b_.scratch("ordered", DType::kF32, {steps_of(c_), batch, Expr(columns)});
    reverse(gates_, gates_strides_, columns, ordered);
    gates_ = ordered;
    gates_strides_ = {batch * columns, Expr(columns), Expr(1)};
    if (wanted(c_, 0)) {
      y_ = b_.scratch("walked", DType::kF32, {steps_of(c_), batch, Expr(hidden_)});
    }
  }

  /// `strides`: of `from`; none: dense.
  void reverse(ValueId from, Shape strides, int64_t columns, ValueId to) {
    const Expr& batch = batch_of(c_);
    if (strides.empty()) strides = {batch * columns, Expr(columns), Expr(1)};
    const Expr elements = steps_of(c_) * batch * columns;
    steps_.push_back(
        {.kernel = "recurrent_reverse",
         .defines = {{"COLUMNS", text(columns) + "u"}},
         .operands = {src("x", from), src("lengths", c_.node.input("lengths")), dst("y", to)},
         .params = {param("elements", elements), param("batch", batch),
                    param("steps", steps_of(c_)), param("x_t", strides[0]),
                    param("x_b", strides[1])},
         .grid = one_each(elements, 64)});
  }

  /// Step t, between the states of launches i - 1 and i.
  void add_step(const States& states, int64_t i, int64_t t) {
    const std::vector<Phase> phases = phases_of(kind_);
    for (size_t p = 0; p < phases.size(); ++p) {
      for (int64_t part = 0; part < parts_.number; ++part) {
        Step step = product(phases[p], weights_[p], p == 0 ? before(states, i) : reset_, part);
        const bool last = part + 1 == parts_.number;
        if (last) finish(step, phases[p], states, i, t);
        step.defines.emplace_back("LAST", flag(last));
        steps_.push_back(std::move(step));
      }
    }
    if (c_.node.has("lengths")) keep(states, i, t);
  }

  /// Where step t is among those of gates and y.
  int64_t place(int64_t t) const {
    return c_.node.flag("reverse") && !reverses_ ? *steps_of(c_).constant() - 1 - t : t;
  }
  Expr y_begin(int64_t t) const { return batch_of(c_) * (place(t) * hidden_); }
  ValueId y() const { return reverses_ ? y_ : c_.node.outputs[0]; }

  /// What follows step t, between the states of launches i - 1 and i, where entries have lengths.
  void keep(const States& states, int64_t i, int64_t t) {
    const Expr elements = batch_of(c_) * hidden_;
    Step step{
        .kernel = "recurrent_keep",
        .defines = {{"H", text(hidden_) + "u"},
                    {"IS_LSTM", flag(is_lstm(kind_))},
                    {"HAS_Y", flag(wanted(c_, 0))}},
        .operands = {src("lengths", c_.node.input("lengths")), src("hidden", before(states, i)),
                     kept("hidden_out", state_after(states.hidden, i))},
        .params = {param("elements", elements), param("t", Expr(t))},
        .grid = one_each(elements, 64)};
    if (is_lstm(kind_)) {
      step.operands.push_back(src("cell", state_before(c_, "cell", states.cell, i)));
      step.operands.push_back(kept("cell_out", state_after(states.cell, i)));
    }
    if (wanted(c_, 0)) {
      step.operands.push_back(kept("y", y()));
      step.params.push_back(param("y_0", y_begin(t)));
    }
    steps_.push_back(std::move(step));
  }

  /// An operand of which elements are written, and the others stay.
  static Operand kept(const char* name, ValueId value) {
    return {.name = name, .value = value, .write = true, .read_write = true};
  }

  ValueId before(const States& states, int64_t i) const {
    return state_before(c_, "hidden", states.hidden, i);
  }

  /// A launch that multiplies `vector` with part of a weight.
  Step product(const Phase& phase, ValueId weight, ValueId vector, int64_t part) const {
    const int64_t from = part * parts_.count, count = std::min(parts_.count, hidden_ - from);
    const Expr grid_rows = ceil_div(batch_of(c_), rows());
    const bool small = tiles() < 512 && grid_rows.bounds(c_.graph.symbols).second < 512;
    Step step{.kernel = "recurrent_simd",
              .defines = kind_defines(c_, phase.kind, phase.gates),
              .operands = {{.name = "weight", .value = weight}, src("vector", vector)},
              .params = {param("batch_last", batch_of(c_) - 1)},
              .grid = {{grid_rows, Expr(tiles()), 1}},
              .local_size = {c_.device.subgroup_size, 1, 1},
              .uniform_table = true};
    step.defines.insert(step.defines.end(), {{"ROWS", text(rows()) + "u"},
                                             {"TILES", text(tiles()) + "u"},
                                             {"COUNT", text(count) + "u"},
                                             {"SMALL_GRID", flag(small)},
                                             {"ADD", flag(parts_.number > 1)}});
    if (parts_.number == 1) {
      step.defines.emplace_back("k_0", "0u");
      return step;
    }
    step.params.push_back(param("k_0", Expr(from)));
    const bool stored = part + 1 != parts_.number;
    step.operands.push_back(
        {.name = "sums", .value = sums_, .write = stored, .read_write = stored});
    return step;
  }

  /// Adds what makes a phase's results.
  void finish(Step& step, const Phase& phase, const States& states, int64_t i, int64_t t) const {
    const auto is = [&](const char* kind) { return std::string_view(phase.kind) == kind; };
    const auto reads = [&](const char* name, ValueId value) {
      step.operands.push_back(src(name, value));
    };
    const auto writes = [&](const char* name, ValueId value) {
      step.operands.push_back(dst(name, value));
    };
    reads("gates", gates_);
    step.defines.emplace_back("PLAIN_GATES", flag(is_float32("gates") || reverses_));
    if (c_.node.has("bias")) {
      reads("bias", c_.node.input("bias"));
      step.defines.emplace_back("PLAIN_BIAS", flag(is_plain(c_, b_, c_.node.input("bias"))));
    }
    if (is("GRU") || is("RESET") || is("NEW")) reads("before", before(states, i));
    if (is("LSTM")) reads("cell", state_before(c_, "cell", states.cell, i));
    if (is("NEW")) reads("update", update_);
    writes("hidden_out", is("RESET") ? reset_ : state_after(states.hidden, i));
    if (is("LSTM")) writes("cell_out", state_after(states.cell, i));
    if (is("RESET")) writes("cell_out", update_);
    const bool has_y = wanted(c_, 0) && !is("RESET");
    step.defines.emplace_back("HAS_Y", flag(has_y));
    if (has_y) {
      writes("y", y());
      step.defines.emplace_back("PLAIN_Y", flag(reverses_ || is_plain(c_, b_, c_.node.outputs[0])));
    }
    step.params.push_back(param("gates_0", gates_strides_[0] * place(t)));
    step.params.push_back(param("gates_b", gates_strides_[1]));
    step.params.push_back(param("y_0", y_begin(t)));
  }

  const NodeContext& c_;
  Builder& b_;
  const Kind& kind_;
  std::vector<Step>& steps_;
  const int64_t hidden_, width_;
  const Parts parts_;
  const bool reverses_;
  ValueId gates_, y_ = kNoValue;
  Shape gates_strides_;
  std::vector<ValueId> weights_;  // of each phase
  ValueId sums_ = kNoValue, reset_ = kNoValue, update_ = kNoValue;
};

std::string unsupported(const NodeContext& c, const Builder& b, const Kind& kind) {
  if (!(b.strides_of(c.node.input("gates"))[2] == Expr(1))) return "gates that are not neighbours";
  if (batch_of(c).bounds(c.graph.symbols).second >= int64_t{1} << 17) {
    return "the batch may be too large";
  }
  const std::string reason = simd_refusal(c.device, hidden_size(c), steps_of(c));
  if (!reason.empty()) return reason;
  const int64_t count = *steps_of(c).constant();
  return count < 1 || count > most_simd_steps(kind, hidden_size(c)) ? "too many launches" : "";
}

}  // namespace

std::string simd_refusal(const DeviceProfile& device, int64_t hidden, const Expr& steps) {
  if (std::string reason = tv::simd_refusal(device); !reason.empty()) return reason;
  if (hidden % 4 != 0) return "units that are no multiple of 4";
  if (hidden < vector_width(device)) return "fewer units than a vector has";
  return steps.constant() ? "" : "a number of steps that is not known";
}

int64_t most_simd_steps(const Kind& kind, int64_t hidden) {
  return kMostLaunches / (static_cast<int64_t>(phases_of(kind).size()) * parts_of(hidden).number);
}

Tactic by_simd(const NodeContext& c, Builder& b, const Kind& kind) {
  Tactic tactic{.name = "recurrent_simd", .refusal = unsupported(c, b, kind)};
  if (tactic.refusal.empty()) Writer(c, b, kind, tactic.steps).write();
  return tactic;
}

}  // namespace tv::rnn
