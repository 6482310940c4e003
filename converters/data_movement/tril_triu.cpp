// triu and tril.

#include "converters/kit/shape_types.h"
#include "converters/kit/steps.h"

namespace tv {
namespace {

void convert(const NodeContext& c, Builder& b, bool lower) {
  const Shape& shape = c.shape("self");
  const Expr elements = product(shape);
  // Beyond the corners a diagonal changes nothing more.
  const Expr height = shape.at(shape.size() - 2), width = shape.back();
  Expr diagonal = c.node.expr("diagonal");
  if (!diagonal.constant() || !holds(DType::kI32, *diagonal.constant()))
    diagonal = max(min(diagonal, width), Expr(-1) * height);
  Step step{.kernel = "tril_triu",
            .defines = {{"LOWER", lower ? "1" : "0"}},
            .operands = {src("x", c.node.input("self")), dst("y", c.node.outputs[0])},
            .params = {param("elements", elements),
                       param("height", height),
                       param("width", width),
                       {.name = "diagonal", .value = diagonal, .number = DType::kI32}}};
  emit_flat(b, std::move(step), elements);
}

Converter tril_triu(std::string op, bool lower) {
  const auto examples = [op] {
    std::vector<Graph> graphs;
    for (const DType dtype : {DType::kF32, DType::kF16, DType::kI64, DType::kBool}) {
      graphs.push_back(ExampleGraph(op)
                           .input("self", dtype, {3, 5, 7})
                           .attr("diagonal", integer(-1))
                           .output(dtype, {3, 5, 7})
                           .graph());
    }
    return graphs;
  };
  return {.op = std::move(op),
          .convert = [lower](const NodeContext& c, Builder& b) { convert(c, b, lower); },
          .reads_views = {"self"},
          .prologue_arg = "self",
          .epilogue = true,
          .types = types::kSame,
          .examples = examples};
}

const RegisterConverter both{tril_triu("aten::triu", false), tril_triu("aten::tril", true)};

}  // namespace
}  // namespace tv
