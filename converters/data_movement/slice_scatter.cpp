// A tensor with one part replaced: slice_scatter and select_scatter.

#include "converters/kit/steps.h"
#include "converters/kit/view_strides.h"
#include "converters/kit/view_types.h"
#include "csrc/rewriter.h"

namespace tv {
namespace {

int64_t dim_of(const NodeContext& c) { return c.wrap(c.node.integer("dim"), c.rank("self")); }

std::optional<Expr> start_of(const NodeContext& c) {
  const Expr& size = c.shape("self").at(dim_of(c));
  if (c.node.find("index") != nullptr) {
    return from_front(c.node.expr("index"), size, c.graph);
  }
  return c.node.has("start") ? slice_bound(c.node.expr("start"), size, c.graph) : Expr(0);
}

std::string unsupported_start(const NodeContext& c) {
  return start_of(c) ? "" : "[" + c.node.op + "] the position may be negative or positive";
}

void convert(const NodeContext& c, Builder& b) {
  const DimSplit split = split_at(c.shape("self"), dim_of(c));
  const bool select = c.node.find("index") != nullptr;
  const Expr elements = product(c.output().shape);
  Step step{.kernel = "slice_scatter",
            .operands = {src("x", c.node.input("self")), src("src", c.node.input("src")),
                         dst("y", c.node.outputs[0])},
            .params = {param("elements", elements), param("size", split.size),
                       param("inner", split.inner), param("from", start_of(c).value()),
                       param("by", c.node.has("step") ? c.node.expr("step") : Expr(1)),
                       param("count", select ? Expr(1) : c.shape("src").at(dim_of(c)))}};
  emit_flat(b, std::move(step), elements);
}

/// A part of another type is cast as a copy would.
void cast_part(const NodeContext& c, Rewriter& r) {
  const DType dtype = c.output().dtype;
  const ValueId part = c.node.input("src");
  if (c.graph.value(part).dtype == dtype) return;
  std::vector<Arg> args = c.node.args;
  for (Arg& arg : args) {
    if (arg.name == "src") arg = tensor_arg("src", r.cast(part, dtype));
  }
  r.replace(0, r.add(c.node.op, std::move(args), dtype, c.output().shape));
}

ExampleGraph scattered(const std::string& op, DType dtype, Shape part) {
  ExampleGraph g(op);
  g.input("self", dtype, {5, 11, 7}).input("src", dtype, std::move(part)).attr("dim", integer(1));
  return g.output(dtype, {5, 11, 7});
}

std::vector<Graph> slice_examples() {
  std::vector<Graph> graphs;
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kI64, DType::kBool}) {
    graphs.push_back(scattered("aten::slice_scatter", dtype, {5, 3, 7})
                         .attr("start", integer(1))
                         .attr("end", integer(7))
                         .attr("step", integer(2))
                         .graph());
  }
  return graphs;
}

std::vector<Graph> select_examples() {
  return {
      scattered("aten::select_scatter", DType::kF32, {5, 7}).attr("index", integer(-1)).graph()};
}

const RegisterConverter scatters{{.op = "aten::slice_scatter",
                                  .unsupported = unsupported_start,
                                  .expand = cast_part,
                                  .convert = convert,
                                  .reads_views = {"*"},
                                  .epilogue = true,
                                  .keeps_float32 = true,
                                  .types = types::slice_put(),
                                  .examples = slice_examples},
                                 {.op = "aten::select_scatter",
                                  .unsupported = unsupported_start,
                                  .expand = cast_part,
                                  .convert = convert,
                                  .reads_views = {"*"},
                                  .epilogue = true,
                                  .keeps_float32 = true,
                                  .types = types::selected_put(),
                                  .examples = select_examples}};

}  // namespace
}  // namespace tv
