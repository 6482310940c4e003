// Gradients of distances between rows: cdist and pdist.

#include <cmath>

#include "converters/distance/distance_types.h"
#include "converters/kit/steps.h"
#include "csrc/rewriter.h"

namespace tv {
namespace {

int form_of(double p) {
  if (std::isinf(p)) return 3;
  return p == 0 ? 0 : p == 1 ? 1 : p == 2 ? 2 : p < 2 ? 5 : 4;
}

void convert(const NodeContext& c, Builder& b, bool rows) {
  const ValueId x1 = c.node.input(rows ? "self" : "x1");
  const Shape& first = c.graph.value(x1).shape;
  const size_t rank = first.size();
  const double p = c.node.number("p");
  const Expr elements = product(c.output().shape);
  Step step{
      .kernel = "cdist_backward",
      .defines = {{"ROWS", rows ? "1" : "0"}, {"ORDER", std::to_string(form_of(p))}},
      .operands = {src("g", c.node.input("grad")), src("x1", x1),
                   src("d", c.node.input(rows ? "pdist" : "cdist")), dst("y", c.node.outputs[0])},
      .params = {param("elements", elements), param("rows1", first.at(rank - 2)),
                 param("columns", first.at(rank - 1)), number("order", p)},
      .iterations = first.at(rank - 2)};
  if (!rows) {
    step.operands.push_back(src("x2", c.node.input("x2")));
    step.iterations = c.shape("x2").at(rank - 2);
    step.params.push_back(param("rows2", step.iterations));
  }
  emit_flat(b, std::move(step), elements);
}

std::string unsupported(const NodeContext& c, const char* arg, const char* other) {
  const std::string floats = floats_only(c, arg);
  const Shape& shape = c.shape(other);
  return floats.empty() ? loops_too_long(c, shape.at(shape.size() - 2)) : floats;
}

/// Batches that broadcast are spread out. Of no distances torch gives the zeros of one batch.
void spread_batches(const NodeContext& c, Rewriter& r) {
  if (product(c.shape("grad")) == Expr(0)) {
    const std::vector<Arg> zeros = {attr_arg("size", c.output().shape),
                                    attr_arg("fill_value", 0.0)};
    r.replace(0, r.add("aten::full", zeros, c.output().dtype, c.output().shape));
    return;
  }
  const Shape batch(c.output().shape.begin(), c.output().shape.end() - 2);
  bool alike = true;
  std::vector<Arg> args = c.node.args;
  for (Arg& a : args) {
    if (!a.is_tensor) continue;
    const Shape shape = c.shape(a.name);
    Shape wide = batch;
    wide.insert(wide.end(), shape.end() - 2, shape.end());
    if (wide == shape) continue;
    alike = false;
    const DType dtype = c.dtype(a.name);
    a = tensor_arg(a.name, r.add("aten::expand",
                                 {tensor_arg("self", c.node.input(a.name)), attr_arg("size", wide)},
                                 dtype, wide));
  }
  if (alike) return;
  r.replace(0, r.add("aten::_cdist_backward", args, c.output().dtype, c.output().shape));
}

std::vector<Graph> examples(bool rows) {
  std::vector<Graph> graphs;
  for (const double p : {0.0, 1.0, 1.5, 2.0, 3.5, static_cast<double>(INFINITY)}) {
    ExampleGraph g(rows ? "aten::_pdist_backward" : "aten::_cdist_backward");
    if (rows) {
      g.input("grad", DType::kF32, {21}).input("self", DType::kF32, {7, 11});
      g.attr("p", p).input("pdist", DType::kF32, {21}).output(DType::kF32, {7, 11});
    } else {
      g.input("grad", DType::kF32, {2, 5, 7}).input("x1", DType::kF32, {2, 5, 11});
      g.input("x2", DType::kF32, {2, 7, 11}).attr("p", p).input("cdist", DType::kF32, {2, 5, 7});
      g.output(DType::kF32, {2, 5, 11});
    }
    graphs.push_back(g.graph());
  }
  return graphs;
}

const RegisterConverter gradients{
    {.op = "aten::_cdist_backward",
     .unsupported = [](const NodeContext& c) { return unsupported(c, "x1", "x2"); },
     .expand = spread_batches,
     .convert = [](const NodeContext& c, Builder& b) { convert(c, b, false); },
     .epilogue = true,
     .types = types::distances,
     .examples = [] { return examples(false); }},
    {.op = "aten::_pdist_backward",
     .unsupported = [](const NodeContext& c) { return unsupported(c, "self", "self"); },
     .convert = [](const NodeContext& c, Builder& b) { convert(c, b, true); },
     .epilogue = true,
     .types = types::distances_of_pairs,
     .examples = [] { return examples(true); }},
};

}  // namespace
}  // namespace tv
