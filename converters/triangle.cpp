// triu and tril.

#include "converters/steps.h"

namespace tv {
namespace {

void convert(const NodeContext& c, Builder& b, bool lower) {
  const Shape& shape = c.shape("self");
  const Expr elements = product(shape);
  Step step{.kernel = "triangle",
            .defines = {{"LOWER", lower ? "1" : "0"}},
            .operands = {src("x", c.node.input("self")), dst("y", c.node.outputs[0])},
            .params = {param("elements", elements),
                       param("height", shape.at(shape.size() - 2)),
                       param("width", shape.back()),
                       {.name = "diagonal", .value = c.node.expr("diagonal"), .is_signed = true}}};
  emit_flat(b, std::move(step), elements);
}

Converter triangle(std::string op, bool lower) {
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
          .examples = examples};
}

const RegisterConverter triangles{triangle("aten::triu", false), triangle("aten::tril", true)};

}  // namespace
}  // namespace tv
