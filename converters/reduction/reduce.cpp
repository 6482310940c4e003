// tv::reduce (kit/reduction.h says what it is).

#include <algorithm>

#include "converters/reduction/reduce_loops.h"
#include "csrc/graph/strided.h"

namespace tv {

namespace {

constexpr int64_t kPasses = 4;  // loops are nested up to three deep
/// Elements from which on a workgroup for each run of neighbours pays, on CPU drivers.
constexpr int64_t kLongRun = 128;

/// How a kind computes: its OP in the kernel, the type and start of its state.
struct State {
  std::string op, type, init;
  DType stored;  ///< of partial results
};

State state_of(const std::string& kind, DType input, DType output) {
  const auto typed = [&](std::string op, DType dtype, std::string f, std::string i, std::string l) {
    if (is_float(dtype)) return State{std::move(op), "float", std::move(f), DType::kF32};
    if (dtype == DType::kI64) return State{std::move(op), "int64_t", std::move(l), DType::kI64};
    return State{std::move(op), "int", std::move(i), DType::kI32};
  };
  if (kind == "sum") return typed("OP_SUM", output, "0.0", "0", "0");
  if (kind == "prod") return typed("OP_PROD", output, "1.0", "1", "1");
  if (kind == "max") {
    return typed("OP_MAX", input, "uintBitsToFloat(0xff800000u)", "-2147483647 - 1",
                 "-9223372036854775807L - 1L");
  }
  if (kind == "min") {
    return typed("OP_MIN", input, "uintBitsToFloat(0x7f800000u)", "2147483647",
                 "9223372036854775807L");
  }
  if (kind == "any") return {"OP_ANY", "int", "0", DType::kI32};
  return {"OP_ALL", "int", "1", DType::kI32};
}

/// One pass over the elements, into chunks × outputs.
struct Pass {
  ValueId from = kNoValue, to = kNoValue;
  std::pair<std::string, std::string> accessor;
  std::string four = {};  ///< text that reads elements i … i + 3; "" if they are no neighbours
  ReduceLoops loops = {};
  Expr chunks = 1;
  std::optional<Expr> divisor = {};
};

Step step_of(const Pass& pass, const State& state, const RowStrategy& strategy) {
  Step step{.kernel = "reduce"};
  step.defines = {{"OP", state.op},
                  {"ACC", state.type},
                  {"INIT", state.init},
                  {"FLOAT_ACC", state.type == "float" ? "1" : "0"},
                  {"DIVIDE", pass.divisor ? "1" : "0"},
                  pass.accessor};
  step.defines.emplace_back("FOURS", pass.four.empty() ? "0" : "1");
  if (!pass.four.empty()) step.defines.emplace_back("x_four(i)", pass.four);
  step.operands = {src("x", pass.from), dst("y", pass.to)};
  const Expr length = pass.four.empty() ? pass.loops.length() : floordiv(pass.loops.length(), 4);
  step.params = {param("chunks", pass.chunks), param("part", ceil_div(length, pass.chunks))};
  if (pass.divisor) step.params.push_back(param("divisor", *pass.divisor));
  pass.loops.add_to(step, length);
  strategy.apply(step, pass.loops.outputs() * pass.chunks, ceil_div(length, pass.chunks) * kPasses);
  return step;
}

/// Into how many parts to cut each output's elements: so that few outputs still fill the device,
/// and no invocation of a CPU driver runs out of iterations.
Expr chunks_for(const NodeContext& c, const RowStrategy& strategy, const ReduceLoops& loops) {
  const bool lane = strategy.kind == RowStrategy::Kind::kInvocation;
  const bool cpu = c.device.is_cpu();
  const RowShape shape = loops.row_shape(c.graph);
  const int64_t want = cpu ? 8 : lane ? 65536 : 512;     // invocations or workgroups to make
  const int64_t least = cpu ? 16384 : lane ? 64 : 4096;  // elements that a part must have
  const int64_t by_rows = want / std::max<int64_t>(shape.rows, 1);
  const Expr wanted = std::max<int64_t>(1, std::min(by_rows, shape.length / least));
  if (!cpu) return wanted;
  const int64_t most = (lane ? 1 : strategy.local) * (c.device.max_loop_iterations() / kPasses);
  if (shape.longest <= most) return wanted;
  return max(wanted, ceil_div(loops.length(), most));
}

/// What combines partial results [chunks, outputs].
Step combination(const Pass& whole, const State& state, ValueId partial, const RowStrategy& lane) {
  const Expr outputs = whole.loops.outputs();
  Pass pass{.from = partial, .to = whole.to, .accessor = {"x_element(i)", "x_raw(i)"}};
  pass.loops = reduce_loops({.shape = {whole.chunks, outputs}, .strides = {outputs, Expr(1)}}, {0});
  pass.divisor = whole.divisor;
  return step_of(pass, state, lane);
}

/// Partial results in a scratch, then their combination.
std::vector<Step> split(Builder& b, const Pass& whole, const State& state,
                        const RowStrategy& strategy, const RowStrategy& lane) {
  Pass first = whole;
  first.divisor = std::nullopt;
  first.to = b.scratch("partial", state.stored, {whole.chunks, whole.loops.outputs()});
  return {step_of(first, state, strategy), combination(whole, state, first.to, lane)};
}

/// Runs of neighbours on CPU drivers, in blocks, and the combination of these.
Tactic blocks_tactic(const NodeContext& c, Builder& b, const Source& x, Pass whole,
                     const State& state, const RowStrategy& lane) {
  const RowBlocks rows = row_blocks(c, whole.loops.outputs(), 1, whole.loops.run);
  Tactic tactic{.name = "reduce_" + c.node.text("kind") + "_simd_blocks", .refusal = rows.refusal};
  const bool runs = whole.loops.rows.sizes.empty() && whole.loops.run_stride == Expr(1) &&
                    is_dense(x.shape, x.strides);
  const bool floats = x.raw && c.dtype("self") == DType::kF32 && state.type == "float";
  if (!runs || !floats) tactic.refusal = "no runs of float32 neighbours";
  if (typical(c.graph, whole.loops.run) < kLongRun) tactic.refusal = "runs are short";
  if (!tactic.refusal.empty()) return tactic;
  whole.chunks = rows.blocks;
  const ValueId partial = b.scratch("partial", state.stored, {rows.blocks, rows.rows});
  Step first = rows.each(c, "reduce_blocks", "simd_load(simd_at(x_ptr, i))");
  for (const auto& [key, value] : {std::pair("OP", state.op),
                                   {"ACC", state.type},
                                   {"INIT", state.init},
                                   {"FLOAT_ACC", std::string("1")}}) {
    first.defines.emplace_back(key, value);
  }
  first.operands = {src("x", whole.from), dst("y", partial)};
  first.params.push_back(param("rows", rows.rows));
  tactic.steps = {std::move(first), combination(whole, state, partial, lane)};
  return tactic;
}

/// Whether an output's elements are whole vectors of neighbours, at multiples of four elements.
bool in_fours(const NodeContext& c, const Source& x, const ReduceLoops& loops) {
  const auto divides = [](const Expr& e) { return mod(e, 4) == Expr(0); };
  const Value& value = c.graph.value(x.value);
  if (x.raw && value.view && !divides(value.view->offset)) return false;
  if (!loops.rows.sizes.empty() || !(loops.run_stride == Expr(1)) || !divides(loops.run))
    return false;
  if (x.raw) {  // as lowering sees it, which makes x_vec4
    Shape shape = x.shape, strides = x.strides;
    collapse(shape, strides);
    if (shape.empty() || !(strides.back() == Expr(1))) return false;
    if (shape.size() > 1 && !divides(shape.back())) return false;
    if (!std::all_of(strides.begin(), strides.end() - 1, divides)) return false;
  }
  const Shape& kept = loops.kept.targets[0].second;
  return std::all_of(kept.begin(), kept.end(), divides);
}

void convert(const NodeContext& c, Builder& b) {
  const Source x = source_of(c, b, "self");
  Pass pass{.from = x.value, .to = c.node.outputs[0], .accessor = x.accessor("x")};
  pass.loops = reduce_loops(x, c.node.integers("dims"));
  if (c.node.has("divisor")) pass.divisor = c.node.expr("divisor");

  const DType result = c.output().dtype;
  if (!c.device.is_cpu() && in_fours(c, x, pass.loops)) {
    pass.four = x.raw ? "x_vec4(i)" : "x_load4(i)";
  }
  const std::string kind = c.node.text("kind");
  const State state = state_of(kind, c.dtype("self"), result);
  RowShape shape = pass.loops.row_shape(c.graph);
  shape.shuffles = state.type != "int64_t";
  shape.longest = 1;  // chunks_for keeps rows short

  std::vector<Tactic> tactics;
  const std::vector<RowStrategy> strategies = row_strategies(c.device, shape);
  tactics.push_back(blocks_tactic(c, b, x, pass, state, strategies.back()));
  for (const RowStrategy& strategy : strategies) {
    Tactic tactic{.name = "reduce_" + kind + "_" + strategy.suffix()};
    pass.chunks = chunks_for(c, strategy, pass.loops);
    if (pass.chunks == Expr(1)) {
      tactic.steps = {step_of(pass, state, strategy)};
    } else {
      tactic.name += "_split";
      tactic.steps = split(b, pass, state, strategy, strategies.back());
    }
    tactics.push_back(std::move(tactic));
  }
  b.emit(std::move(tactics));
}

Graph example(const std::string& kind, DType in, DType out, bool divide = false) {
  ExampleGraph g("tv::reduce");
  g.input("self", in, {7, 300, 5}).attr("kind", kind).attr("dims", ints({1}));
  if (divide) g.attr("divisor", integer(300));
  return g.output(out, {7, 5}).graph();
}

Graph example_of_runs(const std::string& kind) {
  return ExampleGraph("tv::reduce")
      .input("self", DType::kF32, {7, 300})
      .attr("kind", kind)
      .attr("dims", ints({1}))
      .output(DType::kF32, {7})
      .graph();
}

std::vector<Graph> examples() {
  std::vector<Graph> graphs = {
      example("sum", DType::kF32, DType::kF32, true),
      example("sum", DType::kF16, DType::kF16),
      example("sum", DType::kBF16, DType::kF32),
      example("sum", DType::kI64, DType::kI64),
      example("sum", DType::kBool, DType::kI64),
      example("prod", DType::kF32, DType::kF32),
      example("max", DType::kF32, DType::kF32),
      example("max", DType::kI64, DType::kI64),
      example("max", DType::kI32, DType::kI32),
      example("min", DType::kF32, DType::kF32),
      example("min", DType::kU8, DType::kU8),
      example("any", DType::kBool, DType::kBool),
      example("all", DType::kF32, DType::kBool),
      example_of_runs("sum"),
      example_of_runs("max"),
  };
  for (const Shape& shape : {Shape{100000}, Shape{3, 5, 11, 700}, Shape{}}) {
    std::vector<int64_t> dims;
    for (size_t i = 0; i < shape.size(); i += 2) dims.push_back(static_cast<int64_t>(i));
    Shape out;
    for (size_t i = 1; i < shape.size(); i += 2) out.push_back(shape[i]);
    graphs.push_back(ExampleGraph("tv::reduce")
                         .input("self", DType::kF32, shape)
                         .attr("kind", std::string("sum"))
                         .attr("dims", ints(dims))
                         .output(DType::kF32, out)
                         .graph());
  }
  return graphs;
}

const RegisterConverter reduce{{.op = "tv::reduce",
                                .convert = convert,
                                .reads_views = {"self"},
                                .prologue_arg = "self",
                                .epilogue = true,
                                .examples = examples}};

}  // namespace
}  // namespace tv
