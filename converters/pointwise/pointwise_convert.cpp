// tv::pointwise, the node that fusion makes of pointwise operators.

#include <algorithm>

#include "converters/kit/simd.h"
#include "converters/pointwise/cpu_unroll.h"
#include "csrc/builder.h"
#include "csrc/codegen/pointwise_codegen.h"
#include "runtime/base/error.h"

namespace tv {
namespace {

constexpr uint32_t kGpuWorkgroup = 256;
constexpr int64_t kGpuInvocations = 1 << 17;  // that keep a large GPU's memory busy

bool has_vector_access(DType dtype) { return dtype != DType::kI64 && dtype != DType::kF64; }

/// A whole number of vectors in each dense operand.
bool divides_by_four(const Expr& count) {
  const auto constant = count.constant();
  return constant && *constant % 4 == 0;
}

/// `run`: vectors that an invocation reads before it writes (GPUs).
Step pointwise_step(const NodeContext& c, bool vec4, uint32_t run = 1) {
  const std::vector<ValueId>& inputs = c.node.inputs("inputs");
  const Expr numel = product(c.output().shape);
  Step step;
  step.kernel = "pointwise";
  const bool cpu = c.device.is_cpu();
  const uint32_t width = cpu ? c.device.subgroup_size : kGpuWorkgroup;
  const uint32_t unroll = cpu ? cpu_unroll(*c.node.program) / (vec4 ? 4 : 1) : run;
  step.local_size = {width, 1, 1};
  step.defines = {{"UNROLL", std::to_string(unroll) + "u"}};
  if (run > 1) step.defines.emplace_back("RUN", std::to_string(run));
  if (vec4) step.defines.emplace_back("VEC4", "1");
  step.params = {{.name = "numel", .value = numel}};
  step.grid = Grid::flat_groups(ceil_div(numel, Expr(int64_t{width} * unroll * (vec4 ? 4 : 1))));
  // Broadcast operands are read element by element; only whole ones are worth vectors.
  const auto is_whole = [&](ValueId id) {
    return vec4 && product(c.graph.value(id).shape) == numel;
  };
  for (size_t k = 0; k < inputs.size(); ++k) {
    const bool vector = is_whole(inputs[k]) && !c.graph.value(inputs[k]).view &&
                        has_vector_access(c.graph.value(inputs[k]).dtype);
    step.operands.push_back({.name = "in" + std::to_string(k), .value = inputs[k], .vec4 = vector});
  }
  for (size_t k = 0; k < c.node.outputs.size(); ++k) {
    Operand out = dst("out" + std::to_string(k), c.node.outputs[k]);
    const Value& value = c.graph.value(out.value);
    out.vec4 = vec4 && !value.view && has_vector_access(value.dtype);
    step.operands.push_back(out);
  }
  return step;
}

/// For CPU drivers: whole vectors of floats, from uniform addresses.
Tactic simd_tactic(const NodeContext& c) {
  Tactic tactic{.name = "pointwise_simd", .refusal = simd_refusal(c.device), .steps = {}};
  if (!tactic.refusal.empty()) return tactic;
  constexpr int64_t kGroups = 32768;
  const int64_t wide = 2 * int64_t{c.device.subgroup_size};
  const Expr numel = product(c.output().shape);
  const auto count = numel.constant();
  const int64_t runs[] = {16, 8, 4, 2, 1};
  const int64_t most = cpu_unroll(*c.node.program) / 2;  // two vectors a run
  const auto* run = std::find_if(std::begin(runs), std::end(runs), [&](int64_t r) {
    return r <= most && count && *count >= 8 * r * wide;  // both cores get some
  });
  const auto is_float = [&](ValueId id) { return c.graph.value(id).dtype == DType::kF32; };
  const auto& inputs = c.node.inputs("inputs");
  if (most < 1) {
    tactic.refusal = "the program is long: the driver would compile it for long";
  } else if (!count || *count % wide != 0 || run == std::end(runs)) {
    tactic.refusal = "the elements are few, or not known to be whole vectors";
  } else if (*count > kGroups * *run * wide) {
    tactic.refusal = "the grid would be too long";
  } else if (!std::all_of(inputs.begin(), inputs.end(), is_float) ||
             !std::all_of(c.node.outputs.begin(), c.node.outputs.end(), is_float)) {
    tactic.refusal = "not all are float32";
  }
  if (!tactic.refusal.empty()) return tactic;
  Step step = pointwise_step(c, false);
  step.kernel = "pointwise_simd";
  step.defines = {{"RUNS", std::to_string(*run) + "u"}};
  step.grid = {{Expr((*count + *run * wide - 1) / (*run * wide)), 1, 1}};
  step.subgroup_size = c.device.subgroup_size;
  step.uniform_table = true;
  step.simd_row = Expr(wide);
  tactic.steps = {std::move(step)};
  return tactic;
}

/// Runs worth trying, best first: long ones where enough invocations are left, for bytes under way
/// count, and short ones of wide elements.
std::vector<uint32_t> runs_of(const NodeContext& c) {
  if (c.device.is_cpu()) return {1};
  std::vector<int64_t> values;
  for (const Symbol& symbol : c.graph.symbols) values.push_back(symbol.opt);
  const int64_t vectors = product(c.output().shape).eval(values) / 4;
  int64_t widest = 1;
  for (ValueId id : c.node.inputs("inputs")) {
    widest = std::max(widest, size_bytes(c.graph.value(id).dtype));
  }
  const uint32_t most = widest >= 4 ? 2 : 4;
  std::vector<uint32_t> runs = {1, 2, 4};
  const auto fits = [&](uint32_t run) { return run <= most && vectors / run >= kGpuInvocations; };
  std::stable_sort(runs.begin(), runs.end(), [&](uint32_t a, uint32_t b) {
    if (fits(a) != fits(b)) return fits(a);
    return fits(a) ? a > b : a < b;
  });
  return runs;
}

void convert_pointwise(const NodeContext& c, Builder& builder) {
  std::vector<Tactic> tactics = {simd_tactic(c)};
  for (const uint32_t run : runs_of(c)) {
    Tactic vector{.name = "pointwise_vec4", .refusal = {}, .steps = {}};
    if (!c.device.is_cpu()) vector.name += "_run" + std::to_string(run);
    if (c.device.is_cpu() && cpu_unroll(*c.node.program) < 4) {
      vector.refusal = "the program is long: the driver would compile four copies for long";
    } else if (divides_by_four(product(c.output().shape))) {
      vector.steps = {pointwise_step(c, true, run)};
    } else {
      vector.refusal = "the number of elements is not known to be a multiple of 4";
    }
    tactics.push_back(std::move(vector));
  }
  tactics.push_back(
      {.name = "pointwise_scalar", .refusal = {}, .steps = {pointwise_step(c, false)}});
  builder.emit(std::move(tactics));
}

Graph with_output(Graph graph, Node node, DType dtype, Shape shape) {
  const ValueId out = graph.add_output(node, dtype, std::move(shape));
  graph.nodes.push_back(std::move(node));
  graph.outputs = {{.value = out, .name = "out", .strides = {}}};
  return graph;
}

ValueId add_input(Graph& graph, DType dtype, Shape shape) {
  for (const Expr& dim : shape) {
    if (!dim.is_constant() && graph.symbols.empty())
      graph.symbols = {{.name = "n", .min = 1, .opt = 7}};
  }
  const ValueId id = graph.add_value({.name = "in" + std::to_string(graph.inputs.size()),
                                      .dtype = dtype,
                                      .shape = std::move(shape),
                                      .kind = ValueKind::kInput,
                                      .view = {}});
  graph.inputs.push_back(id);
  return id;
}

/// in0 + in1 · 2 over the given shapes.
Graph pointwise_example(DType dtype, const Shape& a, const Shape& b) {
  Graph graph{.name = "pointwise_example"};
  Node node;
  node.op = "tv::pointwise";
  node.name = "pointwise";
  node.args = {tensor_list_arg("inputs", {add_input(graph, dtype, a), add_input(graph, dtype, b)})};
  PointwiseProgram program;
  program.inputs = {dtype, dtype};
  program.instrs = {{.function = "add_scaled",
                     .operands = {0, 1},
                     .scalars = {2},
                     .integers = {},
                     .compute = dtype,
                     .result = dtype}};
  program.results = {2};
  node.program = std::make_shared<const PointwiseProgram>(std::move(program));
  return with_output(std::move(graph), std::move(node), dtype, a);
}

std::vector<Graph> pointwise_examples() {
  return {pointwise_example(DType::kF32, {7, 11, 4}, {7, 11, 4}),
          pointwise_example(DType::kF32, {7, 11, 4}, {11, 1}),
          pointwise_example(DType::kF32, {64, 32}, {32}),  // whole vectors of a CPU driver
          pointwise_example(DType::kF16, {5, 3}, {5, 3}),
          pointwise_example(DType::kBF16, {5, 8}, {8}),
          pointwise_example(DType::kI64, {5, 8}, {5, 8}),
          pointwise_example(DType::kU8, {5, 7}, {}),
          pointwise_example(DType::kF32, {Expr::symbol(0), Expr(3)}, {3})};
}

const RegisterConverter pointwise({
    {.op = "tv::pointwise",
     .convert = convert_pointwise,
     .reads_views = {"*"},
     .examples = pointwise_examples,
     .notes = "what fusion makes of pointwise operators"},
});

}  // namespace
}  // namespace tv
