// Rotary position embeddings, which recognise_rotary makes:
//   y = tv::rotary(x, cos, sin)
//   y, y2 = tv::rotary_pair(x, x2, cos, sin)
// cos and sin are broadcast to x, whose last dimension is constant and even.

#include "converters/kit/steps.h"
#include "csrc/graph/strided.h"

namespace tv {
namespace {

/// The operands and offsets of one x, as `name`, whose rows are loops called `rows`.
void add_rows(const NodeContext& c, const Builder& b, const std::string& name,
              const std::string& rows, Step& step) {
  const Shape& shape = c.shape(name);
  LoopNest loops{.sizes = Shape(shape.begin(), shape.end() - 1)};
  for (const std::string& arg : {name, std::string("cos"), std::string("sin")}) {
    Shape strides = broadcast_strides(c.shape(arg), b.strides_of(c.node.input(arg)), shape);
    if (arg == name || rows == "row") step.params.push_back(param(arg + "_d", strides.back()));
    strides.pop_back();
    loops.targets.emplace_back(arg, strides);
  }
  loops.collapse();
  loops.add_to(step, rows);
  step.operands.push_back(src(name, c.node.input(name)));
}

void convert(const NodeContext& c, Builder& b) {
  const bool pair = c.node.has("x2");
  Step step{.kernel = "rotary", .defines = {{"PAIR", flag(pair)}}};
  step.defines.emplace_back("COLS", std::to_string(*c.shape("x").back().constant()) + "u");
  add_rows(c, b, "x", "row", step);
  step.operands.push_back(src("cos", c.node.input("cos")));
  step.operands.push_back(src("sin", c.node.input("sin")));
  step.operands.push_back(dst("y", c.node.outputs[0]));
  Expr elements = product(c.shape("x"));
  step.params.push_back(param("elements", elements));
  if (pair) {
    add_rows(c, b, "x2", "row2", step);
    step.operands.push_back(dst("y2", c.node.outputs[1]));
    step.params.push_back(param("elements2", product(c.shape("x2"))));
    elements += product(c.shape("x2"));
  }
  emit_flat(b, std::move(step), elements);
}

std::vector<Graph> examples(bool pair) {
  std::vector<Graph> graphs;
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kBF16}) {
    ExampleGraph g(pair ? "tv::rotary_pair" : "tv::rotary");
    g.input("x", dtype, {2, 3, 5, 14});
    if (pair) g.input("x2", dtype, {2, 1, 5, 14});
    g.input("cos", dtype, {2, 1, 5, 14}).input("sin", dtype, {5, 14});
    g.output(dtype, {2, 3, 5, 14});
    if (pair) g.output(dtype, {2, 1, 5, 14});
    graphs.push_back(g.graph());
  }
  return graphs;
}

Converter rotary(bool pair) {
  return {.op = pair ? "tv::rotary_pair" : "tv::rotary",
          .convert = convert,
          .reads_views = {"*"},
          .epilogue = !pair,
          .examples = [pair] { return examples(pair); }};
}

const RegisterConverter both{rotary(false), rotary(true)};

}  // namespace
}  // namespace tv
