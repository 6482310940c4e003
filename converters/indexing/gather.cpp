// gather and advanced indexing: each element of the result comes from a place that indices name.

#include <algorithm>

#include "converters/indexing/index_placement.h"
#include "converters/indexing/indexing_types.h"
#include "converters/indexing/select_rows.h"
#include "converters/kit/scalar_dims.h"
#include "csrc/graph/strided.h"

namespace tv {
namespace {

/// Rows behind `dim` where all elements of each share one index, and dimensions in front of it are
/// of the index's whole length; or nothing.
std::optional<Tactic> gather_rows(const NodeContext& c, const Builder& b, size_t dim) {
  const Shape& shape = c.shape("self");
  const Shape& out = c.output().shape;
  if (shape.size() != out.size() || dim >= out.size()) return {};
  const ValueId index = c.node.input("index");
  const Shape strides = b.strides_of(index);
  for (size_t d = 0; d < out.size(); ++d) {
    if (d != dim && out[d] != shape[d]) return {};
    if (d > dim && strides[d] != Expr(0) && out[d] != Expr(1)) return {};
  }
  const auto front = static_cast<Shape::difference_type>(dim);
  LoopNest outer{.sizes = Shape(out.begin(), out.begin() + front),
                 .targets = {{"index", Shape(strides.begin(), strides.begin() + front)}}};
  outer.collapse();
  if (outer.sizes.size() > 1) return {};
  return choose_rows(c, b,
                     {.x = c.node.input("self"),
                      .index = index,
                      .y = c.node.outputs[0],
                      .split = split_at(shape, static_cast<int64_t>(dim)),
                      .entries = out[dim],
                      .index_outer = outer.sizes.empty() ? Expr(0) : outer.targets[0].second[0],
                      .index_step = strides[dim],
                      .place = place_function(c)},
                     "gather");
}

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
            .grid = one_each(product(out), 64),
            .looks_up = true};
  step.defines = {{"PLACE", place_function(c)}};
  others.add_to(step, "others");
  std::vector<Tactic> tactics;
  if (auto rows = gather_rows(c, b, static_cast<size_t>(dim))) tactics.push_back(std::move(*rows));
  tactics.push_back({.name = "gather", .steps = {std::move(step)}});
  b.emit(std::move(tactics));
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

/// Rows behind the dimension that one index tensor stands for; or a refusal.
Tactic index_rows(const NodeContext& c, const Builder& b, const IndexPlacement& p) {
  Tactic tactic{.name = "index_simd", .refusal = "several indices, or one that is not dense"};
  if (p.indices.size() != 1) return tactic;
  const ValueId index = p.indices[0];
  if (!is_dense(c.graph.value(index).shape, b.strides_of(index))) return tactic;
  return choose_rows(c, b,
                     {.x = c.node.input("self"),
                      .index = index,
                      .y = c.node.outputs[0],
                      .split = split_at(c.shape("self"), p.indexed[0]),
                      .entries = product(p.index_shape),
                      .index_step = 1,
                      .wraps = true,
                      .place = place_function(c)},
                     "index");
}

void index(const NodeContext& c, Builder& b) {
  const Source x = source_of(c, b, "self");
  const IndexPlacement p = index_placement(c);
  const Shape& out = c.output().shape;
  Step step{.kernel = "index",
            .operands = {src("x", x.value), dst("y", c.node.outputs[0])},
            .grid = one_each(product(out), 64)};

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
  b.emit({index_rows(c, b, p), {.name = "index", .steps = {std::move(step)}}});
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
    graphs.push_back(ExampleGraph("aten::index.Tensor")
                         .input("self", dtype, {11, 41})
                         .inputs("indices", {{DType::kI64, {3, 2}}})
                         .output(dtype, {3, 2, 41})
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
