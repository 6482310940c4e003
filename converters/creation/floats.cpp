// tv::floats(values): a short row of float32 numbers that passes know when an engine is built, as
// parameters of a launch. They are part of the weight program.

#include <cmath>

#include "converters/kit/steps.h"
#include "csrc/builder.h"

namespace tv {
namespace {

constexpr size_t kMostValues = 256;

const std::vector<double>& values_of(const Node& node) {
  return std::get<std::vector<double>>(node.arg("values").attr);
}

std::string unsupported(const NodeContext& c) {
  const std::vector<double>& values = values_of(c.node);
  const Shape want = {Expr(static_cast<int64_t>(values.size()))};
  const bool row = c.output().dtype == DType::kF32 && c.output().shape == want;
  return row && !values.empty() && values.size() <= kMostValues
             ? ""
             : "[tv::floats] want a short row of float32";
}

void convert(const NodeContext& c, Builder& builder) {
  Step step;
  step.kernel = "floats";
  std::string stores;
  for (const double value : values_of(c.node)) {
    const std::string at = std::to_string(step.params.size()), name = "v" + at;
    stores += "out_store(" + at + "u, " + name + "); ";
    step.params.push_back({.name = name, .value = static_cast<float>(value)});
  }
  step.defines = {{"STORES", stores}};
  step.operands = {dst("out", c.node.outputs.at(0))};
  builder.emit({{.name = "floats", .refusal = {}, .steps = {step}}});
}

std::vector<Graph> examples() {
  Graph graph{.name = "floats_example"};
  Node node;
  node.op = "tv::floats";
  node.name = "floats";
  node.args = {attr_arg("values", std::vector<double>{1, -0.5, 3e-39, HUGE_VAL})};
  const ValueId out = graph.add_output(node, DType::kF32, {Expr(4)});
  graph.nodes.push_back(std::move(node));
  graph.outputs = {{.value = out, .name = "out", .strides = {}}};
  return {graph};
}

const RegisterConverter floats({{.op = "tv::floats",
                                 .unsupported = unsupported,
                                 .convert = convert,
                                 .examples = examples,
                                 .notes = "numbers that a pass knows"}});

}  // namespace
}  // namespace tv
