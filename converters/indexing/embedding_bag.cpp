// embedding_bag: sums, means and maxima of rows, and what the backward pass reads of them.

#include "converters/kit/steps.h"
#include "csrc/rewriter.h"

namespace tv {
namespace {

void convert(const NodeContext& c, Builder& b) {
  const Shape& weight = c.shape("weight");
  const Expr elements = product(c.output().shape);
  const bool weighted = c.node.has("per_sample_weights");
  // With a last offset there is one more than bags.
  Step step{
      .kernel = "embedding_bag",
      .defines = {{"MODE", std::to_string(c.node.integer("mode"))},
                  {"WEIGHTED", weighted ? "1" : "0"},
                  {"PADDED", flag(!(c.node.expr("padding_idx") == Expr(-1)))}},
      .operands = {src("weight", c.node.input("weight")), src("indices", c.node.input("indices")),
                   src("offsets", c.node.input("offsets")), dst("y", c.node.outputs[0])},
      .params = {param("elements", elements),
                 param("rows", weight.at(0)),
                 param("columns", weight.at(1)),
                 param("entries", product(c.shape("indices"))),
                 param("offset_count", product(c.shape("offsets"))),
                 {.name = "padding", .value = c.node.expr("padding_idx"), .number = DType::kI32}},
      .iterations = product(c.shape("indices"))};
  if (weighted) step.operands.push_back(src("samples", c.node.input("per_sample_weights")));
  emit_flat(b, std::move(step), elements);
}

/// Where a backward pass reads more than the result: the bag of each index, the sizes of bags and
/// the rows that were the largest. Of sums torch leaves the sizes 0, and mostly the bags empty.
void for_backward(const NodeContext& c, Rewriter& r) {
  bool is_read = false;
  for (size_t i = 1; i < c.node.outputs.size(); ++i) is_read |= is_used(c.graph, c.node.outputs[i]);
  if (!is_read) return;
  std::vector<std::pair<DType, Shape>> types;
  for (const ValueId out : c.node.outputs) {
    types.emplace_back(c.graph.value(out).dtype, c.graph.value(out).shape);
  }
  r.replace(0, r.add_multi("tv::embedding_bag", c.node.args, types).front());
  const int64_t mode = c.node.integer("mode");
  const Expr bags = types[0].second.at(0);
  const auto part = [&](size_t output, int64_t which) {
    const Shape& shape = types[output].second;
    const bool nothing = shape.at(0) == Expr(0) || (mode == 0 && which != 0);
    const std::vector<Arg> zeros = {attr_arg("size", shape), attr_arg("fill_value", Expr(0))};
    const std::vector<Arg> args = {tensor_arg("weight", c.node.input("weight")),
                                   tensor_arg("indices", c.node.input("indices")),
                                   tensor_arg("offsets", c.node.input("offsets")),
                                   attr_arg("part", Expr(which)),
                                   attr_arg("bags", bags),
                                   attr_arg("padding_idx", c.node.expr("padding_idx"))};
    r.replace(output, nothing ? r.add("aten::full", zeros, types[output].first, shape)
                              : r.add("tv::embedding_bag_part", args, types[output].first, shape));
  };
  part(1, 0);
  part(2, 1);
  part(3, mode == 2 ? 2 : 1);
}

std::string unsupported(const NodeContext& c) {
  if (c.shape("weight").at(0).bounds(c.graph.symbols).first < 1) {
    return "[" + c.node.op + "] an empty table has nothing to choose from";
  }
  const std::string floats = floats_only(c, "weight");
  return floats.empty() ? loops_too_long(c, product(c.shape("indices"))) : floats;
}

std::vector<Graph> examples(const std::string& op) {
  std::vector<Graph> graphs;
  for (const DType dtype : {DType::kF32, DType::kF16}) {
    for (const int64_t mode : {0, 1, 2}) {
      ExampleGraph g(op);
      g.input("weight", dtype, {37, 11})
          .input("indices", DType::kI64, {13})
          .input("offsets", DType::kI64, {5})
          .attr("mode", integer(mode))
          .attr("padding_idx", integer(-1));
      if (mode == 0) g.input("per_sample_weights", dtype, {13});
      graphs.push_back(g.output(dtype, {5, 11}).graph());
    }
  }
  return graphs;
}

void check_bags(NodeTypes& t) {
  const bool ends = t.node().flag("include_last_offset");
  const Shape offsets = t.shape("offsets");
  if (ends) t.at_least(offsets[0], 1, "the number of offsets");
  t.gives({offsets[0] - (ends ? 1 : 0), t.shape("weight")[1]});
}

Converter bag(std::string op) {
  return {.op = op,
          .unsupported = unsupported,
          .expand = op == "tv::embedding_bag" ? nullptr : decltype(Converter::expand)(for_backward),
          .convert = convert,
          .epilogue = true,
          .examples = [op] { return examples(op); }};
}

const TypeRule types = TypeRule(
                           "weight [. e], indices i[n], offsets i[.], per_sample_weights [n] -> "
                           "[. e], [.], [.], [*{1,2}]") &
                       check_bags;

const RegisterConverter bags{bag("tv::embedding_bag"), typed(bag("aten::_embedding_bag"), types),
                             typed(bag("aten::_embedding_bag_forward_only"), types)};

}  // namespace
}  // namespace tv
