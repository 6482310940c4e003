// argmax, argmin, and extremes along one dimension with their positions.

#include <numeric>

#include "converters/kit/reduction.h"
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

void emit(const NodeContext& c, Builder& b, bool largest, Outputs outputs) {
  const Source x = source_of(c, b, "self");
  const DType dtype = c.dtype("self");
  const ReduceLoops loops = reduce_loops(x, dims_of(c, x.shape));
  const std::string key = key_type(dtype);
  Step base{.kernel = "arg_reduce",
            .defines = {{"KEY", key},
                        {"FLOAT_KEY", flag(key == "float")},
                        {"LARGEST", flag(largest)},
                        {"VALUES", flag(outputs.values != kNoValue)},
                        {"INDICES", flag(outputs.indices != kNoValue)},
                        x.accessor("x")},
            .operands = {src("x", x.value)}};
  if (outputs.values != kNoValue) base.operands.push_back(dst("y", outputs.values));
  if (outputs.indices != kNoValue) base.operands.push_back(dst("idx", outputs.indices));
  loops.add_to(base);

  RowShape shape = loops.row_shape(c.graph);
  shape.shuffles = key != "int64_t";
  std::vector<Tactic> tactics;
  for (const RowStrategy& strategy : row_strategies(c.device, shape)) {
    Step step = base;
    strategy.apply(step, loops.outputs(), loops.length());
    tactics.push_back({.name = "arg_reduce_" + strategy.suffix(), .steps = {step}});
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
