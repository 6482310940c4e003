// gather and advanced indexing: each element of the result comes from a place that indices name.

#include <algorithm>

#include "converters/indexing/index_placement.h"
#include "converters/indexing/indexing_types.h"
#include "converters/kit/scalar_dims.h"
#include "csrc/graph/strided.h"

namespace tv {
namespace {

void gather(const NodeContext& c, Builder& b) {
  const Source x = source_of(c, b, "self");
  const Shape out = with_a_dim(c.output().shape);
  const Shape sizes = with_a_dim(x.shape, out.size());
  const Shape strides = strides_with_a_dim(x.strides, out.size());
  const int64_t dim = c.wrap(c.node.integer("dim"), static_cast<int64_t>(out.size()));
  LoopNest others{.sizes = out, .targets = {{"x", strides}}};
  others.targets[0].second.at(dim) = Expr(0);
  others.collapse();
  Step step{.kernel = "gather",
            .operands = {src("x", x.value), src("index", c.node.input("index")),
                         dst("y", c.node.outputs[0])},
            .params = {param("elements", product(out)), param("size", sizes.at(dim)),
                       param("size_stride", strides.at(dim))},
            .looks_up = true};
  step.defines = {{"PLACE", place_function(c)}};
  others.add_to(step, "others");
  emit_flat(b, std::move(step), product(out));
}

std::string something_to_read(const NodeContext& c) {
  if (product(c.shape("self")).bounds(c.graph.symbols).first >= 1) return "";
  if (product(c.output().shape) == Expr(0)) return "";
  return "[" + c.node.op + "] the tensor to read from may be empty";
}

std::string index_unsupported(const NodeContext& c) {
  const std::string masks = indices_unsupported(c);
  return masks.empty() ? something_to_read(c) : masks;
}

void index(const NodeContext& c, Builder& b) {
  const Source x = source_of(c, b, "self");
  const IndexPlacement p = index_placement(c);
  const Shape& out = c.output().shape;
  Step step{.kernel = "index", .operands = {src("x", x.value), dst("y", c.node.outputs[0])}};

  LoopNest all{.sizes = out, .targets = {{"x", Shape(out.size(), Expr(0))}}};
  for (size_t k = 0; k < p.sliced.size(); ++k) {
    all.targets[0].second.at(p.position(k)) = x.strides.at(p.sliced[k]);
  }
  std::string picks;
  for (size_t k = 0; k < p.indices.size(); ++k) {
    const std::string n = std::to_string(k);
    const ValueId id = p.indices[k];
    const Shape strides =
        broadcast_strides(c.graph.value(id).shape, b.strides_of(id), p.index_shape);
    Shape over_out(out.size(), Expr(0));
    std::copy(strides.begin(), strides.end(), over_out.begin() + p.index_at);
    all.targets.emplace_back("i" + n, over_out);
    step.operands.push_back(src("i" + n, id));
    step.params.push_back(param("size" + n, x.shape.at(p.indexed[k])));
    step.params.push_back(param("stride" + n, x.strides.at(p.indexed[k])));
    picks += (k == 0 ? "pick(int64_t(i" : " + pick(int64_t(i") + n + "_raw(i" + n +
             "_offset)), size" + n + ", stride" + n + ")";
  }
  step.params.push_back(param("elements", product(out)));
  step.defines = {{"INDEX_PICKS", picks}, {"PLACE", place_function(c)}};
  all.collapse();
  all.add_to(step, "all");
  emit_flat(b, std::move(step), product(out));
}

std::vector<Graph> gather_examples() {
  std::vector<Graph> graphs;
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kI64, DType::kBool}) {
    graphs.push_back(ExampleGraph("aten::gather")
                         .input("self", dtype, {5, 11, 7})
                         .attr("dim", integer(1))
                         .input("index", DType::kI64, {5, 3, 7})
                         .output(dtype, {5, 3, 7})
                         .graph());
  }
  return graphs;
}

std::vector<Graph> index_examples() {
  std::vector<Graph> graphs;
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kI64, DType::kBool}) {
    graphs.push_back(ExampleGraph("aten::index.Tensor")
                         .input("self", dtype, {5, 11, 7})
                         .inputs("indices", {{DType::kI64, {3, 1}}, {DType::kI64, {4}}})
                         .output(dtype, {3, 4, 7})
                         .graph());
  }
  return graphs;
}

Converter indexing(std::string op) {
  return {.op = std::move(op),
          .unsupported = index_unsupported,
          .convert = index,
          .reads_views = {"*"},
          .epilogue = true,
          .types = types::index,
          .examples = index_examples,
          .notes = "an index out of range, where it is not checked, reads the nearest element"};
}

const RegisterConverter gathers{
    {.op = "aten::gather",
     .unsupported = something_to_read,
     .convert = gather,
     .reads_views = {"*"},
     .epilogue = true,
     .types = types::gather,
     .examples = gather_examples,
     .notes = "an index out of range, where it is not checked, reads the nearest element"},
    indexing("aten::index.Tensor"),
    indexing("aten::_unsafe_index.Tensor"),
};

}  // namespace
}  // namespace tv
