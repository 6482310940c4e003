// gather and advanced indexing: each element of the result comes from a place that indices name.

#include <algorithm>

#include "converters/steps.h"

namespace tv {
namespace {

void gather(const NodeContext& c, Builder& b) {
  const Source x = source_of(c, b, "self");
  const Shape& out = c.output().shape;
  const auto rank = static_cast<int64_t>(out.size());
  const int64_t dim = rank == 0 ? 0 : c.wrap(c.node.integer("dim"), rank);
  Walk others{.sizes = out, .targets = {{"x", x.strides}}};
  if (rank > 0) others.targets[0].second[dim] = Expr(0);
  others.collapse();
  Step step{.kernel = "gather",
            .operands = {src("x", x.value), src("index", c.node.input("index")),
                         dst("y", c.node.outputs[0])},
            .params = {param("elements", product(out)),
                       param("size", rank == 0 ? Expr(1) : x.shape.at(dim)),
                       param("size_stride", rank == 0 ? Expr(1) : x.strides.at(dim))}};
  others.add_to(step, "others");
  emit_flat(b, std::move(step), product(out));
}

std::string something_to_read(const NodeContext& c) {
  if (product(c.shape("self")).bounds(c.graph.symbols).first >= 1) return "";
  if (product(c.output().shape) == Expr(0)) return "";
  return "[" + c.node.op + "] the tensor to read from may be empty";
}

std::string index_unsupported(const NodeContext& c) {
  for (const ValueId id : c.node.inputs("indices")) {
    if (id == kNoValue) continue;
    const DType dtype = c.graph.value(id).dtype;
    if (dtype == DType::kBool || dtype == DType::kU8) {
      return "[" + c.node.op + "] a mask's result has a size that depends on data";
    }
  }
  return something_to_read(c);
}

/// Where the dimensions of x and of the indices' common shape stand in the result.
struct Placement {
  std::vector<int64_t> indexed;   ///< dimensions of x with an index tensor
  std::vector<int64_t> sliced;    ///< those without, in order
  size_t index_at = 0;            ///< first dimension of the result that belongs to the indices
  size_t index_rank = 0;
};

Placement placement(const NodeContext& c, const std::vector<ValueId>& indices, size_t rank) {
  Placement p;
  for (size_t d = 0; d < rank; ++d) {
    const bool has = d < indices.size() && indices[d] != kNoValue;
    (has ? p.indexed : p.sliced).push_back(static_cast<int64_t>(d));
    if (has) p.index_rank = std::max(p.index_rank, c.graph.value(indices[d]).shape.size());
  }
  // Indices side by side keep their place; else their dimensions come first.
  const bool adjacent = p.indexed.back() - p.indexed.front() + 1 ==
                        static_cast<int64_t>(p.indexed.size());
  p.index_at = adjacent ? static_cast<size_t>(p.indexed.front()) : 0;
  return p;
}

void index(const NodeContext& c, Builder& b) {
  const Source x = source_of(c, b, "self");
  const std::vector<ValueId>& indices = c.node.inputs("indices");
  const Placement p = placement(c, indices, x.shape.size());
  const Shape& out = c.output().shape;
  Step step{.kernel = "index", .operands = {src("x", x.value), dst("y", c.node.outputs[0])}};

  Walk all{.sizes = out, .targets = {{"x", Shape(out.size(), Expr(0))}}};
  for (size_t i = 0, s = 0; i < out.size(); ++i) {
    if (i >= p.index_at && i < p.index_at + p.index_rank) continue;
    all.targets[0].second[i] = x.strides.at(p.sliced.at(s++));
  }
  std::string picks;
  for (size_t k = 0; k < p.indexed.size(); ++k) {
    const std::string n = std::to_string(k);
    const ValueId id = indices.at(p.indexed[k]);
    const Shape& shape = c.graph.value(id).shape;
    const Shape strides = b.strides_of(id);
    Shape walk(out.size(), Expr(0));
    for (size_t i = 0; i < shape.size(); ++i) {
      const bool spread = shape[i] == Expr(1);
      if (!spread) walk[p.index_at + p.index_rank - shape.size() + i] = strides[i];
    }
    all.targets.emplace_back("i" + n, walk);
    step.operands.push_back(src("i" + n, id));
    step.params.push_back(param("size" + n, x.shape.at(p.indexed[k])));
    step.params.push_back(param("stride" + n, x.strides.at(p.indexed[k])));
    picks += "PICK(i" + n + "_raw, i" + n + "_offset, size" + n + ", stride" + n + ") ";
  }
  step.params.push_back(param("elements", product(out)));
  step.defines = {{"INDEX_PICKS", picks}};
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
          .examples = index_examples,
          .notes = "an index out of range reads the nearest element"};
}

const RegisterConverter gathers{
    {.op = "aten::gather",
     .unsupported = something_to_read,
     .convert = gather,
     .reads_views = {"*"},
     .epilogue = true,
     .examples = gather_examples,
     .notes = "an index out of range reads the nearest element"},
    indexing("aten::index.Tensor"),
    indexing("aten::_unsafe_index.Tensor"),
};

}  // namespace
}  // namespace tv
