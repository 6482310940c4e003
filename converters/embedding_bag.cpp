// embedding_bag: sums, means and maxima of rows, where nothing but the result itself is used (the
// rest is for the backward pass, which stays native).

#include "converters/steps.h"

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
                  {"WEIGHTED", weighted ? "1" : "0"}},
      .operands = {src("weight", c.node.input("weight")), src("indices", c.node.input("indices")),
                   src("offsets", c.node.input("offsets")), dst("y", c.node.outputs[0])},
      .params = {param("elements", elements),
                 param("rows", weight.at(0)),
                 param("columns", weight.at(1)),
                 param("entries", product(c.shape("indices"))),
                 param("offset_count", product(c.shape("offsets"))),
                 {.name = "padding", .value = c.node.expr("padding_idx"), .is_signed = true}},
      .iterations = product(c.shape("indices"))};
  if (weighted) step.operands.push_back(src("samples", c.node.input("per_sample_weights")));
  emit_flat(b, std::move(step), elements);
}

std::string unsupported(const NodeContext& c) {
  for (size_t i = 1; i < c.node.outputs.size(); ++i) {
    if (is_used(c.graph, c.node.outputs[i]))
      return "[" + c.node.op + "] is prepared for a backward pass";
  }
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

Converter bag(std::string op) {
  return {.op = op,
          .unsupported = unsupported,
          .convert = convert,
          .epilogue = true,
          .examples = [op] { return examples(op); },
          .notes = "where nothing but the result itself is used"};
}

const RegisterConverter bags{bag("aten::_embedding_bag"), bag("aten::_embedding_bag_forward_only")};

}  // namespace
}  // namespace tv
