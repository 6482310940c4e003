// argmax, argmin, and extremes along one dimension with their positions.

#include <algorithm>
#include <numeric>

#include "converters/kit/reduction.h"
#include "converters/kit/row_types.h"
#include "converters/reduction/reduce_loops.h"

namespace tv {
namespace {

/// Which outputs of the node are values and indices; kNoValue: not there or not wanted.
struct Outputs {
  ValueId values = kNoValue, indices = kNoValue;
};

std::vector<int64_t> dims_of(const NodeContext& c, const Shape& shape) {
  const auto rank = static_cast<int64_t>(shape.size());
  if (c.node.has("dim")) {
    return rank == 0 ? std::vector<int64_t>{} : std::vector{c.wrap(c.node.integer("dim"), rank)};
  }
  std::vector<int64_t> all(rank);
  std::iota(all.begin(), all.end(), 0);
  return all;
}

/// A walk over elements and the outputs it fills, of a node or of a part of one.
struct Pass {
  ReduceLoops loops = {};
  Expr chunks = 1;
  std::pair<std::string, std::string> accessor;
  std::vector<Operand> operands;
  Outputs outputs = {};
  bool partial = false, merge = false;
};

Step step_of(const Pass& pass, const std::string& key, bool largest, const RowStrategy& strategy) {
  Step step{.kernel = "arg_reduce",
            .defines = {{"KEY", key},
                        {"FLOAT_KEY", flag(key == "float")},
                        {"LARGEST", flag(largest)},
                        {"VALUES", flag(pass.outputs.values != kNoValue)},
                        {"INDICES", flag(pass.outputs.indices != kNoValue)},
                        {"PARTIAL", flag(pass.partial)},
                        {"MERGE", flag(pass.merge)},
                        pass.accessor},
            .operands = pass.operands};
  if (pass.outputs.values != kNoValue) step.operands.push_back(dst("y", pass.outputs.values));
  if (pass.outputs.indices != kNoValue) step.operands.push_back(dst("idx", pass.outputs.indices));
  const Expr part = ceil_div(pass.loops.length(), pass.chunks);
  step.params = {param("chunks", pass.chunks), param("part", part)};
  pass.loops.add_to(step);
  strategy.apply(step, pass.loops.outputs() * pass.chunks, part);
  return step;
}

/// Into how many parts to cut each output's elements, so that few long rows fill the device.
int64_t chunks_for(const DeviceProfile& device, const RowShape& shape) {
  const int64_t want = device.is_cpu() ? 8 : 128;        // workgroups to make
  const int64_t least = device.is_cpu() ? 16384 : 1024;  // elements that a part must have
  const int64_t by_rows = want / std::max<int64_t>(shape.rows, 1);
  return std::max<int64_t>(1, std::min(by_rows, shape.length / least));
}

/// The best of each chunk in scratches, then the best of those.
std::vector<Step> split(const NodeContext& c, Builder& b, const Pass& whole, int64_t chunks,
                        const std::string& key, bool largest, const RowStrategy& strategy) {
  const Expr outputs = whole.loops.outputs();
  const Shape parts = {Expr(chunks), outputs};
  const DType stored = key == "float" ? DType::kF32 : key == "int64_t" ? DType::kI64 : DType::kI32;
  const ValueId keys = b.scratch("keys", stored, parts);
  const ValueId places = b.scratch("places", DType::kI32, parts);
  Pass first = whole;
  first.chunks = chunks;
  first.outputs = {};
  first.partial = true;
  first.operands.push_back(dst("key", keys));
  first.operands.push_back(dst("place", places));
  Pass second{.loops = reduce_loops({.shape = parts, .strides = {outputs, Expr(1)}}, {0}),
              .accessor = {"x_element(i)", "x_raw(i)"},
              .operands = {src("x", keys), src("place", places)},
              .outputs = whole.outputs,
              .merge = true};
  RowShape shape{.rows = typical(c.graph, outputs), .length = chunks, .longest = chunks};
  shape.shuffles = key != "int64_t";
  return {step_of(first, key, largest, strategy),
          step_of(second, key, largest, row_strategies(c.device, shape).front())};
}

void emit(const NodeContext& c, Builder& b, bool largest, Outputs outputs) {
  const Source x = source_of(c, b, "self");
  const std::string key = key_type(c.dtype("self"));
  const Pass pass{.loops = reduce_loops(x, dims_of(c, x.shape)),
                  .accessor = x.accessor("x"),
                  .operands = {src("x", x.value)},
                  .outputs = outputs};
  RowShape shape = pass.loops.row_shape(c.graph);
  shape.shuffles = key != "int64_t";
  const int64_t chunks = chunks_for(c.device, shape);
  std::vector<Tactic> tactics;
  for (const RowStrategy& strategy : row_strategies(c.device, shape)) {
    const std::string name = "arg_reduce_" + strategy.suffix();
    if (chunks > 1 && strategy.kind != RowStrategy::Kind::kInvocation) {
      tactics.push_back(
          {.name = name + "_split", .steps = split(c, b, pass, chunks, key, largest, strategy)});
    }
    tactics.push_back({.name = name, .steps = {step_of(pass, key, largest, strategy)}});
  }
  b.emit(std::move(tactics));
}

auto positions(bool largest) {
  return [largest](const NodeContext& c, Builder& b) {
    emit(c, b, largest, {.indices = c.node.outputs[0]});
  };
}

auto extremes(bool largest) {
  return [largest](const NodeContext& c, Builder& b) {
    const bool indices = is_used(c.graph, c.node.outputs.at(1));
    emit(c, b, largest,
         {.values = c.node.outputs[0], .indices = indices ? c.node.outputs[1] : kNoValue});
  };
}

std::vector<Graph> examples(const std::string& op, bool values) {
  std::vector<Graph> graphs;
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kI64, DType::kI32}) {
    for (const int64_t dim : {0, 1, 2}) {
      Shape out = {5, 300, 7};
      out.erase(out.begin() + dim);
      ExampleGraph g(op);
      g.input("self", dtype, {5, 300, 7}).attr("dim", integer(dim));
      if (values) g.output(dtype, out);
      graphs.push_back(g.output(DType::kI64, out).graph());
    }
  }
  for (const DType dtype : {DType::kF16, DType::kI64, DType::kI32}) {  // long rows are cut
    ExampleGraph g(op);
    g.input("self", dtype, {2, 40000}).attr("dim", integer(1));
    if (values) g.output(dtype, {2});
    graphs.push_back(g.output(DType::kI64, {2}).graph());
  }
  if (values) return graphs;
  graphs.push_back(ExampleGraph(op)
                       .input("self", DType::kF32, {5, 300, 7})
                       .none("dim")
                       .output(DType::kI64, {})
                       .graph());
  return graphs;
}

Converter entry(std::string op, decltype(Converter::convert) convert, bool values) {
  return {.op = op,
          .unsupported =
              [](const NodeContext& c) {
                return row_too_long(c, count_in(c.shape("self"), dims_of(c, c.shape("self"))), 1);
              },
          .convert = std::move(convert),
          .reads_views = {"self"},
          .prologue_arg = "self",
          .epilogue = true,
          .needs_elements = true,
          .types = types::reduced,
          .examples = [op, values] { return examples(op, values); }};
}

const RegisterConverter arg_reductions{
    entry("aten::argmax", positions(true), false),
    entry("aten::argmin", positions(false), false),
    entry("aten::max.dim", extremes(true), true),
    entry("aten::min.dim", extremes(false), true),
};

}  // namespace
}  // namespace tv
