// tv::recurrent, and tv::lstm, which has cells, too: one direction of one layer of a recurrent
// network, from the products of all of its inputs on. Frontends and expansions make it.

#include "converters/recurrent/recurrent.h"

#include <algorithm>

#include "converters/kit/steps.h"
#include "converters/recurrent/recurrent_parts.h"

namespace tv {
namespace rnn {
namespace {

constexpr int64_t kUnroll = 4;           // vectors of four steps of k in a block
constexpr int64_t kBlock = 4 * kUnroll;  // of k
constexpr int64_t kSharedBytes = 32768;
// A launch should not keep a GPU for long: as many multiplications of a workgroup, and as many
// launches where the number of steps is not known.
constexpr int64_t kWork = int64_t{1} << 31, kLaunches = 16;
// Below so many units a workgroup reads the weights as fast as a launch takes.
constexpr int64_t kManyUnits = 256;

int64_t padded(int64_t hidden) { return (hidden + kBlock - 1) / kBlock * kBlock; }

int64_t shared_bytes(const Kind& kind, int64_t hidden, int64_t entries) {
  return kind.arrays * entries * padded(hidden) * 4;
}

int64_t most_shared(const DeviceProfile& device) {
  return std::min<int64_t>(device.max_shared_bytes, kSharedBytes);
}

uint32_t group_size(const DeviceProfile& device, int64_t hidden) {
  const uint32_t most =
      std::min({512U, device.max_workgroup_invocations, device.max_workgroup_size[0]});
  uint32_t size = 32;
  while (size < hidden && 2 * size <= most) size *= 2;
  return size;
}

/// Loop iterations of a step, and beside the steps.
int64_t iterations_of_step(const Kind& kind, int64_t hidden, int64_t group) {
  const int64_t units = (hidden + group - 1) / group;
  const int64_t walks = resets_first(kind) ? 2 : 1;
  return 1 + walks * units * (1 + padded(hidden) / kBlock);
}
int64_t iterations_around(int64_t hidden, int64_t group) {
  return 2 * (padded(hidden) + group - 1) / group + 2;
}

/// Steps of a launch that more of them follow.
int64_t steps_of_launch(const NodeContext& c, const Kind& kind, int64_t entries) {
  const int64_t hidden = hidden_size(c), group = group_size(c.device, hidden);
  const int64_t by_loops = (std::min(c.device.max_loop_iterations(), int64_t{1} << 40) -
                            iterations_around(hidden, group)) /
                           iterations_of_step(kind, hidden, group);
  const int64_t by_work = kWork / (gates_of(kind) * hidden * hidden * entries);
  return std::max<int64_t>(1, std::min(by_loops, std::max<int64_t>(by_work, 64)));
}

int64_t launches(const NodeContext& c, const Expr& steps, int64_t each) {
  const int64_t most = steps.bounds(c.graph.symbols).second;
  if (steps.constant()) return std::max<int64_t>(1, (most + each - 1) / each);
  return most > each * kLaunches ? kLaunches : std::max<int64_t>(1, (most + each - 1) / each);
}

Expr last_iterations(const NodeContext& c, const Kind& kind, int64_t entries) {
  const Expr& steps = c.shape("gates")[0];
  const int64_t hidden = hidden_size(c), group = group_size(c.device, hidden);
  const int64_t each = steps_of_launch(c, kind, entries), before = launches(c, steps, each) - 1;
  return max(Expr(0), steps - before * each) * iterations_of_step(kind, hidden, group) +
         iterations_around(hidden, group);
}

std::string unsupported(const NodeContext& c) {
  const std::string at = "[" + c.node.op + "] ";
  const Kind* kind = kind_of(c.node);
  const std::string order = c.node.text("order");
  if (kind == nullptr || order.size() != std::string_view(kind->gates).size() ||
      places(kind->gates, order).empty()) {
    return at + "no network of kind " + c.node.text("kind") + " has gates " + order;
  }
  for (const char* arg : {"gates", "weight", "bias", "hidden", "cell"}) {
    if (c.node.has(arg) && !is_float(c.dtype(arg))) return at + arg + " is not of a float type";
  }
  if (is_lstm(*kind) != (c.node.op == "tv::lstm")) {
    return at + "kind " + c.node.text("kind");
  }
  const Expr& size = c.shape("weight").back();
  if (std::string reason = recurrent_refusal(c, kind->name, size); !reason.empty()) return reason;
  if (std::string reason = slow_loop_refusal(c, kind->name, size, steps_of(c)); !reason.empty()) {
    return reason;
  }
  return loops_too_long(c, last_iterations(c, *kind, 1));
}

/// How recurrent.comp computes a node.
struct Loop {
  int64_t entries = 1;  ///< of a workgroup
  int64_t parts = 1;    ///< workgroups that share the units
  int64_t each = 1;     ///< steps of a launch
  int64_t count = 1;    ///< launches
  uint32_t group = 64;
};

Step loop_step(const NodeContext& c, Builder& b, const Kind& kind, const Loop& loop,
               ValueId packed) {
  const Expr &steps = c.shape("gates")[0], &batch = c.shape("gates")[1];
  const Shape strides = b.strides_of(c.node.input("gates"));
  Step step{.kernel = "recurrent",
            .defines = kind_defines(c, kind.name, kind.gates),
            .operands = {src("gates", c.node.input("gates")),
                         {.name = "weight", .value = packed, .vec4 = true}},
            .params = {param("batch", batch), param("steps", steps), param("gates_t", strides[0]),
                       param("gates_b", strides[1]), param("gates_g", strides[2])},
            .grid = Grid::flat_groups(ceil_div(batch, loop.entries) * loop.parts),
            .local_size = {loop.group, 1, 1}};
  step.defines.insert(step.defines.end(), {{"K", text(padded(hidden_size(c))) + "u"},
                                           {"ENTRIES", text(loop.entries) + "u"},
                                           {"PARTS", text(loop.parts) + "u"},
                                           {"UNROLL", text(kUnroll) + "u"},
                                           {"LENGTHS", flag(c.node.has("lengths"))},
                                           {"REVERSE", flag(c.node.flag("reverse"))},
                                           {"HAS_Y", flag(wanted(c, 0))}});
  for (const char* arg : {"bias", "lengths"}) {
    if (c.node.has(arg)) step.operands.push_back(src(arg, c.node.input(arg)));
  }
  if (wanted(c, 0)) step.operands.push_back(dst("y", c.node.outputs[0]));
  return step;
}

/// The steps of one launch, from `begin` to before `end`.
struct Span {
  int64_t launch;  ///< its number
  bool last;       ///< of all launches
  Expr begin, end;
};

/// The launch of recurrent.comp for these steps; `step`: what all launches have.
Step launch_of(const NodeContext& c, const Kind& kind, Step step, const States& states,
               const Span& span) {
  const auto state = [&](const char* from, const char* to, const std::vector<ValueId>& turns,
                         size_t output, const char* define) {
    step.operands.push_back(src(from, state_before(c, from, turns, span.launch)));
    const bool stored = !span.last || wanted(c, output);
    step.defines.emplace_back(define, flag(stored));
    if (!stored) return;
    const ValueId after = span.last ? c.node.outputs[output] : state_after(turns, span.launch);
    step.operands.push_back(dst(to, after));
  };
  state("hidden", "last", states.hidden, 1, "HAS_LAST");
  if (is_lstm(kind)) {
    state("cell", "last_cell", states.cell, 2, "HAS_LAST_CELL");
  } else {
    step.defines.emplace_back("HAS_LAST_CELL", "0");
  }
  step.params.push_back(param("begin", span.begin));
  step.params.push_back(param("end", span.end));
  return step;
}

/// All launches of recurrent.comp.
void add_loops(const NodeContext& c, Builder& b, const Kind& kind, const Loop& loop,
               std::vector<Step>& steps) {
  const int64_t hidden = hidden_size(c);
  const Packing packing{.gates = kind.gates, .k = padded(hidden), .fours = 4, .width = hidden};
  const ValueId packed = packed_weight(c, b, packing, c.dtype("weight"), steps);
  const States states = states_between(c, b, kind, loop.count);
  const Step base = loop_step(c, b, kind, loop, packed);
  const Expr& all = c.shape("gates")[0];
  for (int64_t i = 0; i < loop.count; ++i) {
    const bool last = i + 1 == loop.count;
    const Span span{.launch = i,
                    .last = last,
                    .begin = min(all, Expr(i * loop.each)),
                    .end = last ? all : min(all, Expr((i + 1) * loop.each))};
    Step step = base;
    const Expr most = last ? max(Expr(0), all - i * loop.each) : Expr(loop.each);
    step.iterations =
        most * iterations_of_step(kind, hidden, loop.group) + iterations_around(hidden, loop.group);
    steps.push_back(launch_of(c, kind, std::move(step), states, span));
  }
}

std::string too_much_shared(const NodeContext& c, const Kind& kind, int64_t entries) {
  if (shared_bytes(kind, hidden_size(c), entries) <= most_shared(c.device)) return "";
  return "states of " + std::to_string(entries) + " entries exceed shared memory";
}

/// Steps in a loop: a workgroup for so many entries of the batch.
Tactic by_group(const NodeContext& c, Builder& b, const Kind& kind, int64_t entries) {
  const uint32_t group = group_size(c.device, hidden_size(c));
  Tactic tactic{.name = "recurrent_group" + std::to_string(group) + "_" + std::to_string(entries),
                .refusal = too_much_shared(c, kind, entries)};
  if (!tactic.refusal.empty()) return tactic;
  const int64_t each = steps_of_launch(c, kind, entries);
  add_loops(c, b, kind,
            {.entries = entries,
             .each = each,
             .count = launches(c, c.shape("gates")[0], each),
             .group = group},
            tactic.steps);
  return tactic;
}

/// Why there cannot be a launch for each step, or "".
std::string not_by_steps(const NodeContext& c, const Kind& kind) {
  const auto steps = steps_of(c).constant();
  if (!steps) return "the number of steps is not known";
  if (*steps < 1 || *steps > kMostLaunches) return "too many launches";
  return resets_first(kind) ? "two products a step" : "";
}

/// A launch for each step: workgroups share the units.
Tactic by_steps(const NodeContext& c, Builder& b, const Kind& kind, int64_t units) {
  const int64_t hidden = hidden_size(c), parts = (hidden + units - 1) / units;
  Tactic tactic{.name = "recurrent_steps_group" + std::to_string(units) + "_1",
                .refusal = not_by_steps(c, kind)};
  if (tactic.refusal.empty()) tactic.refusal = too_much_shared(c, kind, 1);
  if (tactic.refusal.empty() && parts < 2) tactic.refusal = "one workgroup has all units";
  if (!tactic.refusal.empty()) return tactic;
  add_loops(c, b, kind,
            {.parts = parts,
             .count = *c.shape("gates")[0].constant(),
             .group = static_cast<uint32_t>(units)},
            tactic.steps);
  return tactic;
}

/// What tactics may differ by (Tactic::error). Rounding grows from step to step with weights as
/// large as the tuner's random ones: after a few, results say nothing of a tactic.
double error_after(const Expr& steps, const Graph& graph) {
  return typical(graph, steps) > 3 ? 1 : 0;
}

void convert(const NodeContext& c, Builder& b) {
  const Kind& kind = *kind_of(c.node);
  const int64_t batch = typical(c.graph, c.shape("gates")[1]);
  // Entries of a workgroup share what it reads of the weights; workgroups share the device.
  std::vector<int64_t> sizes = {4, 2, 1};
  if (batch == 1) {
    sizes = {1};
  } else if (!c.device.is_cpu() && batch <= 64) {
    sizes = {1, 2, 4};
  } else if (batch < 4) {
    sizes = {2, 1};
  }
  std::vector<Tactic> tactics;
  if (c.device.is_cpu()) {
    tactics.push_back(by_simd(c, b, kind));
  } else if (hidden_size(c) >= kManyUnits) {
    tactics.push_back(by_steps(c, b, kind, 64));
  }
  for (const int64_t entries : sizes) tactics.push_back(by_group(c, b, kind, entries));
  for (Tactic& tactic : tactics) tactic.error = error_after(c.shape("gates")[0], c.graph);
  b.emit(std::move(tactics));
}

void check_gates(NodeTypes& t) {
  const Shape weight = t.shape("weight");
  const Kind* kind = kind_of(t.node());
  t.want(kind != nullptr, "argument 'kind'");
  t.equal(weight[0], weight[1] * gates_of(*kind), "the rows of the weight");
}

std::vector<Graph> examples(const std::string& op) {
  std::vector<Graph> graphs;
  const auto add = [&](const char* kind, const char* order, DType dtype, bool more,
                       int64_t hidden = 19, bool lengths = true) {
    const auto gates = static_cast<int64_t>(std::string_view(order).size());
    if ((gates == 4) != (op == "tv::lstm")) return;
    // Few steps: with weights of any size the results of many depend on every rounding.
    const int64_t steps = 3, batch = 5;
    ExampleGraph g(op);
    g.input("gates", dtype, {steps, batch, gates * hidden});
    g.input("weight", dtype, {gates * hidden, hidden});
    more ? g.input("bias", dtype, {gates * hidden}) : g.none("bias");
    g.input("hidden", dtype, {batch, hidden});
    if (gates == 4) g.input("cell", dtype, {batch, hidden});
    more&& lengths ? g.input("lengths", DType::kI32, {batch}) : g.none("lengths");
    g.attr("kind", std::string(kind)).attr("order", std::string(order)).attr("reverse", more);
    g.output(dtype, {steps, batch, hidden}).output(dtype, {batch, hidden});
    if (gates == 4) g.output(dtype, {batch, hidden});
    graphs.push_back(g.graph());
  };
  add("LSTM", "ifgo", DType::kF32, true);
  add("LSTM", "iofg", DType::kF16, false);
  add("GRU", "rzn", DType::kF32, true);
  add("GRU", "zrn", DType::kBF16, false);
  add("GRU_RESET_FIRST", "zrn", DType::kF32, true);
  add("TANH", "h", DType::kF32, false);
  add("RELU", "h", DType::kF16, true);
  add("LSTM", "ifgo", DType::kF32, true, 64, false);
  add("GRU", "rzn", DType::kF32, true, 96, false);
  add("TANH", "h", DType::kF32, false, 32);
  add("RELU", "h", DType::kF32, false, 96);
  // Units in no whole vectors, lengths, 16 bits and two products a step, on CPU drivers too.
  add("LSTM", "iofg", DType::kF32, true, 100);
  add("LSTM", "ifgo", DType::kF16, false, 36);
  add("GRU", "rzn", DType::kBF16, true, 68);
  add("GRU_RESET_FIRST", "zrn", DType::kF32, true, 72);
  add("GRU_RESET_FIRST", "rzn", DType::kF32, false, 40);
  add("TANH", "h", DType::kF32, true, 44);
  return graphs;
}

Converter entry(std::string op, const char* schema) {
  return {.op = op,
          .unsupported = unsupported,
          .convert = convert,
          .reads_views = {"gates", "weight"},
          .types = TypeRule("gates [t b g], weight [g h], bias [g], hidden [b h], cell [b h], "
                            "lengths [b] -> [t b h], [b h], [b h]") &
                   check_gates,
          .schema = schema,
          .examples = [op] { return examples(op); },
          .notes = "from the products of the inputs on, whatever the number of steps"};
}

const RegisterConverter networks{
    entry("tv::recurrent",
          "tv::recurrent(Tensor gates, Tensor weight, Tensor? bias, Tensor hidden, "
          "Tensor? lengths, str kind, str order, bool reverse) -> (Tensor, Tensor)"),
    entry("tv::lstm",
          "tv::lstm(Tensor gates, Tensor weight, Tensor? bias, Tensor hidden, Tensor cell, "
          "Tensor? lengths, str kind, str order, bool reverse) -> (Tensor, Tensor, Tensor)"),
};

}  // namespace

Step hand_on(const NodeContext& c, Builder& b, const Kind& kind, const States& states, int64_t i,
             int64_t launches, ValueId packed) {
  const int64_t hidden = hidden_size(c), group = group_size(c.device, hidden);
  Step step = loop_step(c, b, kind, {.group = static_cast<uint32_t>(group)}, packed);
  step.iterations = iterations_around(hidden, group);
  const Span none{.launch = i, .last = i + 1 == launches, .begin = steps_of(c), .end = steps_of(c)};
  return launch_of(c, kind, std::move(step), states, none);
}

}  // namespace rnn

std::string recurrent_refusal(const NodeContext& c, const std::string& kind, const Expr& size) {
  const std::string at = "[" + c.node.op + "] ";
  const auto hidden = size.constant();
  if (!hidden || *hidden < 1) return at + "needs a fixed hidden size";
  const int64_t most =
      rnn::most_shared(c.device) / (rnn::kind_named(kind)->arrays * 4) / rnn::kBlock * rnn::kBlock;
  if (*hidden <= most) return "";
  return at + "a hidden size of " + std::to_string(*hidden) +
         "; a workgroup's shared memory holds " + std::to_string(most);
}

std::string slow_loop_refusal(const NodeContext& c, const std::string& kind, const Expr& size,
                              const Expr& steps) {
  // Of what has too many launches, a slow loop of so many steps is better than nothing.
  constexpr int64_t kMostUnits = 64, kMostSlowSteps = 4096;
  const int64_t units = *size.constant();
  if (!c.device.is_cpu() || units <= kMostUnits || steps == Expr(0)) return "";
  std::string reason = rnn::simd_refusal(c.device, units, steps);
  if (reason.empty()) {
    const int64_t most =
        std::max(kMostSlowSteps, rnn::most_simd_steps(*rnn::kind_named(kind), units));
    if (*steps.constant() <= most) return "";
    reason = "too many steps";
  }
  return "[" + c.node.op + "] a loop of " + std::to_string(*size.constant()) +
         " units, which is slow on a CPU driver (up to " + std::to_string(kMostUnits) +
         " run there), and " + reason + " for a launch a step";
}

}  // namespace tv
