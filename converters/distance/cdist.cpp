// Distances between rows: cdist and pdist.

#include <cmath>

#include "converters/distance/distance_types.h"
#include "converters/kit/steps.h"
#include "csrc/rewriter.h"

namespace tv {
namespace {

int form_of(double p) {
  if (std::isinf(p)) return 3;
  return p == 0 ? 0 : p == 1 ? 1 : p == 2 ? 2 : 4;
}

void convert(const NodeContext& c, Builder& b, bool rows) {
  const ValueId x1 = c.node.input(rows ? "self" : "x1");
  const Shape& first = c.graph.value(x1).shape;
  const double p = c.node.number("p");
  const Expr elements = product(c.output().shape);
  const size_t rank = first.size();
  Step step{.kernel = "cdist",
            .defines = {{"ROWS", rows ? "1" : "0"}, {"ORDER", std::to_string(form_of(p))}},
            .operands = {src("x1", x1), dst("y", c.node.outputs[0])},
            .params = {param("elements", elements), param("rows1", first.at(rank - 2)),
                       param("columns", first.at(rank - 1)), number("order", p)}};
  if (!rows) {
    step.operands.push_back(src("x2", c.node.input("x2")));
    step.params.push_back(param("rows2", c.shape("x2").at(rank - 2)));
  }
  step.iterations = first.at(rank - 1);
  emit_flat(b, std::move(step), elements);
}

std::string unsupported(const NodeContext& c, const char* arg) {
  const std::string floats = floats_only(c, arg);
  return floats.empty() ? loops_too_long(c, c.shape(arg).back()) : floats;
}

std::string cdist_unsupported(const NodeContext& c) { return unsupported(c, "x1"); }

/// Batches that broadcast are spread out.
void spread_batches(const NodeContext& c, Rewriter& r) {
  const Shape batch(c.output().shape.begin(), c.output().shape.end() - 2);
  bool alike = true;
  std::vector<Arg> args = c.node.args;
  for (const char* arg : {"x1", "x2"}) {
    const Shape& shape = c.shape(arg);
    Shape wide = batch;
    wide.insert(wide.end(), shape.end() - 2, shape.end());
    if (wide == shape) continue;
    alike = false;
    const ValueId spread =
        r.add("aten::expand", {tensor_arg("self", c.node.input(arg)), attr_arg("size", wide)},
              c.dtype(arg), wide);
    for (Arg& a : args) {
      if (a.name == arg) a = tensor_arg(arg, spread);
    }
  }
  if (alike) return;
  r.replace(0, r.add("aten::_cdist_forward", args, c.output().dtype, c.output().shape));
}

std::vector<Graph> examples(bool rows) {
  std::vector<Graph> graphs;
  for (const double p : {0.0, 1.0, 2.0, 3.5, static_cast<double>(INFINITY)}) {
    ExampleGraph g(rows ? "aten::_pdist_forward" : "aten::_cdist_forward");
    if (rows) {
      g.input("self", DType::kF32, {7, 11}).attr("p", p).output(DType::kF32, {21});
    } else {
      g.input("x1", DType::kF32, {2, 5, 11}).input("x2", DType::kF32, {2, 7, 11}).attr("p", p);
      g.output(DType::kF32, {2, 5, 7});
    }
    graphs.push_back(g.graph());
  }
  return graphs;
}

const RegisterConverter distances{
    {.op = "aten::_cdist_forward",
     .unsupported = cdist_unsupported,
     .expand = spread_batches,
     .convert = [](const NodeContext& c, Builder& b) { convert(c, b, false); },
     .epilogue = true,
     .types = types::distances,
     .examples = [] { return examples(false); }},
    {.op = "aten::_pdist_forward",
     .unsupported = [](const NodeContext& c) { return unsupported(c, "self"); },
     .convert = [](const NodeContext& c, Builder& b) { convert(c, b, true); },
     .epilogue = true,
     .types = types::distances_of_pairs,
     .examples = [] { return examples(true); }},
};

}  // namespace
}  // namespace tv
