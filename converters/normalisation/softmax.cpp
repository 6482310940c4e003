// softmax, log_softmax and their gradients along one dimension.

#include "converters/kit/row_types.h"
#include "converters/kit/rows.h"
#include "converters/kit/shape_types.h"

namespace tv {
namespace {

constexpr int64_t kPasses = 4;  // largest, sum, result; each a little more than its elements

DimSplit split_of(const NodeContext& c, const std::string& arg) {
  const Shape& shape = c.shape(arg);
  const auto rank = static_cast<int64_t>(shape.size());
  return split_at(shape, rank == 0 ? 0 : c.wrap(c.node.integer("dim"), rank));
}

Step step_of(const std::string& kernel, bool log, const DimSplit& split) {
  Step step{.kernel = kernel, .defines = {{"LOG", log ? "1" : "0"}}};
  step.params = {param("rows", split.outer * split.inner), param("count", split.size),
                 param("inner", split.inner)};
  return step;
}

/// Long rows on CPU drivers, in blocks: their sums, the rows' totals, the results.
Tactic blocks_tactic(const NodeContext& c, Builder& b, const DimSplit& split, const Step& base) {
  const RowBlocks rows = row_blocks(c, split.outer, 1, split.size);
  Tactic tactic{.name = "softmax_simd_blocks", .refusal = rows.refusal};
  if (!(split.inner == Expr(1))) tactic.refusal = "rows are not of neighbours";
  if (!tactic.refusal.empty()) return tactic;
  const ValueId sums = b.scratch("sums", DType::kF32, {rows.rows * rows.blocks * 2});
  const ValueId totals = b.scratch("totals", DType::kF32, {rows.rows * 2});
  Step first = rows.each(c, "softmax_blocks", "x_simd(i)");
  first.operands = {base.operands[0], dst("sums", sums)};
  Step merge = rows.merged("softmax_merge");
  merge.operands = {src("sums", sums), dst("totals", totals)};
  Step last = rows.each(c, "softmax_apply", "x_simd(i)");
  last.operands = {base.operands[0], src("totals", totals), base.operands[1]};
  for (Step* step : {&merge, &last}) {
    step->defines.insert(step->defines.end(), base.defines.begin(), base.defines.end());
  }
  tactic.steps = {std::move(first), std::move(merge), std::move(last)};
  return tactic;
}

void emit(const NodeContext& c, Builder& b, const DimSplit& split, const Step& base) {
  const Expr rows = split.outer * split.inner;
  const RowShape shape{.rows = typical(c.graph, rows),
                       .length = typical(c.graph, split.size),
                       .longest = split.size.bounds(c.graph.symbols).second,
                       .passes = kPasses,
                       .contiguous = split.inner == Expr(1),
                       .vectors = base.kernel == "softmax" ? whole_vectors(split.size) : 0};
  std::vector<Tactic> tactics;
  if (base.kernel == "softmax") {
    Step step = base;
    Tactic simd{.name = "softmax_simd"};
    simd.refusal = make_row_simd(c, shape, rows, split.size, step);
    simd.steps = {step};
    tactics.push_back(std::move(simd));
    tactics.push_back(blocks_tactic(c, b, split, base));
  }
  for (const RowStrategy& strategy : row_strategies(c.device, shape)) {
    Step step = base;
    strategy.apply(step, rows, split.size * kPasses);
    tactics.push_back({.name = base.kernel + "_" + strategy.suffix(), .steps = {step}});
  }
  b.emit(std::move(tactics));
}

auto forward(bool log) {
  return [log](const NodeContext& c, Builder& b) {
    const DimSplit split = split_of(c, "self");
    Step step = step_of("softmax", log, split);
    step.operands = {src("x", c.node.input("self")), dst("y", c.node.outputs[0])};
    emit(c, b, split, step);
  };
}

auto backward(bool log) {
  return [log](const NodeContext& c, Builder& b) {
    const DimSplit split = split_of(c, "output");
    Step step = step_of("softmax_backward", log, split);
    step.operands = {src("g", c.node.input("grad_output")), src("y", c.node.input("output")),
                     dst("gx", c.node.outputs[0])};
    emit(c, b, split, step);
  };
}

std::vector<Graph> forward_examples(const std::string& op) {
  std::vector<Graph> graphs;
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
    for (const int64_t dim : {0, 1}) {
      graphs.push_back(ExampleGraph(op)
                           .input("self", dtype, {5, 300})
                           .attr("dim", integer(dim))
                           .output(dtype, {5, 300})
                           .graph());
    }
  }
  return graphs;
}

std::vector<Graph> backward_examples(const std::string& op) {
  std::vector<Graph> graphs;
  for (const DType dtype : {DType::kF32, DType::kF16}) {
    graphs.push_back(ExampleGraph(op)
                         .input("grad_output", dtype, {5, 300})
                         .input("output", dtype, {5, 300})
                         .attr("dim", integer(-1))
                         .output(dtype, {5, 300})
                         .graph());
  }
  return graphs;
}

Converter softmax(std::string op, bool log) {
  return {
      .op = op,
      .unsupported =
          [](const NodeContext& c) { return row_too_long(c, split_of(c, "self").size, kPasses); },
      .convert = forward(log),
      .prologue_arg = "self",
      .epilogue = true,
      .types = types::of_rows(types::kSame),
      .examples = [op] { return forward_examples(op); }};
}

void along_a_dim(NodeTypes& t) { t.wrap(t.integer("dim", -1), t.rank("output")); }

Converter softmax_backward(std::string op, bool log) {
  return {.op = op,
          .unsupported =
              [](const NodeContext& c) {
                const std::string floats = floats_only(c, "output");
                return !floats.empty() ? floats
                                       : row_too_long(c, split_of(c, "output").size, kPasses);
              },
          .convert = backward(log),
          .epilogue = true,
          .types = TypeRule("output [*s], grad_output [*s] -> [*s]") & along_a_dim,
          .examples = [op] { return backward_examples(op); }};
}

const RegisterConverter softmaxes{
    softmax("aten::_softmax", false),
    softmax("aten::softmax.int", false),
    softmax("aten::_log_softmax", true),
    softmax("aten::log_softmax.int", true),
    softmax("aten::special_log_softmax", true),
    softmax_backward("aten::_softmax_backward_data", false),
    softmax_backward("aten::_log_softmax_backward_data", true),
};

}  // namespace
}  // namespace tv
