// tv::embedding_bag_part: which bag an index is in, how many indices a bag has, and which of its
// rows is the largest.

#include "converters/kit/steps.h"

namespace tv {
namespace {

enum Part : int64_t { kBagOf, kSizes, kLargest };

void convert(const NodeContext& c, Builder& b) {
  const int64_t part = c.node.integer("part");
  const Shape& out = c.output().shape;
  const Expr elements = product(out), entries = product(c.shape("indices"));
  Step step{
      .kernel = "embedding_bag_part",
      .defines = {{"PART", std::to_string(part)},
                  {"PADDED", flag(!(c.node.expr("padding_idx") == Expr(-1)))}},
      .operands = {src("offsets", c.node.input("offsets")), dst("y", c.node.outputs[0])},
      .params = {param("elements", elements),
                 param("entries", entries),
                 param("offset_count", product(c.shape("offsets"))),
                 {.name = "padding", .value = c.node.expr("padding_idx"), .number = DType::kI32},
                 param("bags", c.node.expr("bags")),
                 param("columns", part == kLargest ? out.back() : Expr(1))},
      .iterations = part == kBagOf ? Expr(32) : entries};
  if (part != kBagOf) step.operands.push_back(src("indices", c.node.input("indices")));
  if (part == kLargest) {
    step.operands.push_back(src("weight", c.node.input("weight")));
    step.params.push_back(param("rows", c.shape("weight").at(0)));
  }
  emit_flat(b, std::move(step), elements);
}

std::vector<Graph> examples() {
  std::vector<Graph> graphs;
  for (const int64_t part : {kBagOf, kSizes, kLargest}) {
    ExampleGraph g("tv::embedding_bag_part");
    g.input("weight", DType::kF32, {37, 11})
        .input("indices", DType::kI64, {13})
        .input("offsets", DType::kI64, {5})
        .attr("part", integer(part))
        .attr("bags", integer(5))
        .attr("padding_idx", integer(-1));
    const Shape out = part == kBagOf ? Shape{13} : part == kSizes ? Shape{5} : Shape{5, 11};
    graphs.push_back(g.output(DType::kI64, out).graph());
  }
  return graphs;
}

const RegisterConverter parts{
    {.op = "tv::embedding_bag_part", .convert = convert, .epilogue = true, .examples = examples}};

}  // namespace
}  // namespace tv
