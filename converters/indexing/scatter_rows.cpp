// index_put, index_add, index_copy and the gradient of embedding: rows of a tensor named by indices
// get values added or replaced, in a fixed order also where several entries name one row.

#include <algorithm>

#include "converters/indexing/index_placement.h"
#include "converters/indexing/indexing_types.h"
#include "converters/indexing/row_scatter.h"
#include "converters/kit/scalar_dims.h"
#include "csrc/graph/strided.h"
#include "csrc/rewriter.h"

namespace tv {
namespace {

// Finding the entries of each row compares each row with each entry.
constexpr int64_t kMostComparisons = int64_t{1} << 31;

RowScatter scatter_of(const NodeContext& c) {
  RowScatter s;
  s.y = c.node.outputs[0];
  s.out = c.output().shape;
  return s;
}

/// The indices, which broadcast to `shape`.
void set_indices(const NodeContext& c, const Builder& b, std::vector<ValueId> indices, Shape shape,
                 RowScatter& s) {
  for (const ValueId id : indices) {
    s.index_strides.push_back(broadcast_strides(c.graph.value(id).shape, b.strides_of(id), shape));
  }
  s.indices = std::move(indices);
  s.index_shape = std::move(shape);
}

void emit(const NodeContext& c, Builder& b, const RowScatter& s) {
  std::vector<Tactic> tactics = sorted_scatter(c, b, s);
  const Expr rows = s.rows(), entries = s.entries();
  const ValueId key = b.scratch("key", DType::kI32, {entries});
  const ValueId head = b.scratch("head", DType::kI32, {rows});
  const ValueId next = b.scratch("next", DType::kI32, {entries});

  Tactic tactic{.name = "scatter_rows", .steps = {scatter_keys(s, key)}};
  tactic.steps.push_back({.kernel = "scatter_chain",
                          .operands = {src("key", key), dst("head", head), dst("next", next)},
                          .params = {param("rows", rows), param("entries", entries)},
                          .grid = one_each(rows + entries, 64),
                          .iterations = entries});
  Step apply = row_step("scatter_rows", s);
  apply.operands.insert(apply.operands.begin(), {src("head", head), src("next", next)});
  tactic.steps.push_back(std::move(apply));
  tactics.push_back(std::move(tactic));
  b.emit(std::move(tactics));
}

std::string too_many(const NodeContext& c, const Expr& rows, const Expr& entries) {
  if (entries.bounds(c.graph.symbols).first > c.device.max_loop_iterations()) {
    return "[" + c.node.op + "] " + entries.str() + " entries; this device takes " +
           std::to_string(c.device.max_loop_iterations());
  }
  const int64_t comparisons = typical(c.graph, rows) * typical(c.graph, entries);
  if (comparisons <= kMostComparisons) return "";
  return "[" + c.node.op + "] " + std::to_string(comparisons) +
         " comparisons of rows with entries, more than a deterministic scatter should make";
}

// --- embedding_dense_backward ---

std::string embedding_unsupported(const NodeContext& c) {
  if (c.node.flag("scale_grad_by_freq")) return "[" + c.node.op + "] scale_grad_by_freq";
  return too_many(c, c.output().shape.at(0), product(c.shape("indices")));
}

void embedding_backward(const NodeContext& c, Builder& b) {
  const Shape grad = b.strides_of(c.node.input("grad_output"));
  RowScatter s = scatter_of(c);
  s.values = c.node.input("grad_output");
  s.row_shape = {c.output().shape.at(0)};
  set_indices(c, b, {c.node.input("indices")}, c.shape("indices"), s);
  s.row_of = {Expr(1), Expr(0)};
  s.rest = {Expr(0), grad.back()};
  s.value_strides.assign(grad.begin(), grad.end() - 1);
  s.dropped = c.node.expr("padding_idx");
  s.checked = false;  // what was looked up before, as in PyTorch
  emit(c, b, s);
}

// --- index_put ---

std::string put_unsupported(const NodeContext& c) {
  const std::string masks = indices_unsupported(c);
  if (!masks.empty()) return masks;
  if (c.value("values").dtype != c.value("self").dtype)
    return "PyTorch wants values of self's type";
  const IndexPlacement p = index_placement(c);
  Expr rows = 1;
  for (const int64_t d : p.indexed) rows *= c.shape("self").at(d);
  if (rows.bounds(c.graph.symbols).first < 1) return "[" + c.node.op + "] self may be empty";
  return too_many(c, rows, product(p.index_shape));
}

void index_put(const NodeContext& c, Builder& b) {
  const Shape& shape = c.shape("self");
  const IndexPlacement p = index_placement(c);
  RowScatter s = scatter_of(c);
  s.base = c.node.input("self");
  s.values = c.node.input("values");
  set_indices(c, b, p.indices, p.index_shape, s);
  s.add = c.node.flag("accumulate");
  s.checked = checks_indices(c);
  s.wraps = index_wraps(c.node);
  for (const int64_t d : p.indexed) s.row_shape.push_back(shape[d]);

  // values broadcasts to the shape that x[indices] has.
  Shape target(p.result_rank(), Expr(1));
  std::copy(p.index_shape.begin(), p.index_shape.end(), target.begin() + p.index_at);
  for (size_t k = 0; k < p.sliced.size(); ++k) target[p.position(k)] = shape[p.sliced[k]];
  const Shape strides =
      broadcast_strides(c.graph.value(s.values).shape, b.strides_of(s.values), target);
  s.value_strides.assign(strides.begin() + p.index_at,
                         strides.begin() + p.index_at + p.index_shape.size());

  s.row_of.assign(shape.size(), Expr(0));
  s.rest.assign(shape.size(), Expr(0));
  const Shape row_strides = contiguous_strides(s.row_shape);
  for (size_t k = 0; k < p.indexed.size(); ++k) s.row_of[p.indexed[k]] = row_strides[k];
  for (size_t k = 0; k < p.sliced.size(); ++k) s.rest[p.sliced[k]] = strides[p.position(k)];
  emit(c, b, s);
}

// --- index_add, index_copy ---

std::string slices_unsupported(const NodeContext& c) {
  const bool adds = c.node.op == "aten::index_add";
  const DType dtype = c.value("self").dtype;
  if (adds && dtype == DType::kBool) return "[" + c.node.op + "] truth values";
  if (adds && c.node.arg("alpha").is_tensor) return "[" + c.node.op + "] an alpha that varies";
  if (c.value("source").dtype != dtype) return "PyTorch wants a source of self's type";
  const Shape& shape = c.shape("self");
  const int64_t dim = c.wrap(c.node.integer("dim"), std::max<int64_t>(1, shape.size()));
  const Expr rows = shape.empty() ? Expr(1) : shape[dim];
  if (rows.bounds(c.graph.symbols).first < 1) return "[" + c.node.op + "] self may be empty";
  return too_many(c, rows, product(c.shape("index")));
}

/// As an index_put whose negative indices are out of range.
void put_slices(const NodeContext& c, Rewriter& r) {
  const DType dtype = c.output().dtype;
  const bool adds = c.node.op == "aten::index_add";
  const Shape shape = with_a_dim(c.shape("self"));
  const auto dim =
      static_cast<size_t>(c.wrap(c.node.integer("dim"), static_cast<int64_t>(shape.size())));
  const Expr entries = product(c.shape("index"));
  Shape slices = shape;
  slices[dim] = entries;
  ValueId source = r.reshape(c.node.input("source"), slices);
  if (adds && c.node.number("alpha") != 1)
    source = r.pointwise("mul", {source}, dtype, {c.node.number("alpha")});
  std::vector<ValueId> indices(dim, kNoValue);
  indices.push_back(r.reshape(c.node.input("index"), {entries}));
  const ValueId put = r.add("aten::index_put",
                            {tensor_arg("self", r.reshape(c.node.input("self"), shape)),
                             tensor_list_arg("indices", indices), tensor_arg("values", source),
                             attr_arg("accumulate", adds), indices_from_front()},
                            dtype, shape);
  r.replace(0, r.reshape(put, c.output().shape));
}

std::vector<Graph> embedding_examples() {
  std::vector<Graph> graphs;
  for (const DType dtype : {DType::kF32, DType::kF16}) {
    graphs.push_back(ExampleGraph("aten::embedding_dense_backward")
                         .input("grad_output", dtype, {3, 5, 11})
                         .input("indices", DType::kI64, {3, 5})
                         .attr("num_weights", integer(37))
                         .attr("padding_idx", integer(-1))
                         .attr("scale_grad_by_freq", false)
                         .output(dtype, {37, 11})
                         .graph());
    graphs.push_back(ExampleGraph("aten::embedding_dense_backward")
                         .input("grad_output", dtype, {29, 41})
                         .input("indices", DType::kI64, {29})
                         .attr("num_weights", integer(7))
                         .attr("padding_idx", integer(3))
                         .attr("scale_grad_by_freq", false)
                         .output(dtype, {7, 41})
                         .graph());
  }
  return graphs;
}

std::vector<Graph> put_examples() {
  std::vector<Graph> graphs;
  for (const DType dtype : {DType::kF32, DType::kF16, DType::kI64}) {
    for (const bool add : {false, true}) {
      graphs.push_back(ExampleGraph("aten::index_put")
                           .input("self", dtype, {5, 11, 7})
                           .inputs("indices", {{DType::kI64, {3, 1}}, {DType::kI64, {4}}})
                           .input("values", dtype, {7})
                           .attr("accumulate", add)
                           .output(dtype, {5, 11, 7})
                           .graph());
      graphs.push_back(ExampleGraph("aten::index_put")
                           .input("self", dtype, {11, 41})
                           .inputs("indices", {{DType::kI64, {29}}})
                           .input("values", dtype, {29, 41})
                           .attr("accumulate", add)
                           .output(dtype, {11, 41})
                           .graph());
    }
  }
  return graphs;
}

Converter put(std::string op) {
  return {.op = std::move(op),
          .unsupported = put_unsupported,
          .convert = index_put,
          .reads_views = {"*"},
          .epilogue = true,
          .types = types::index_put,
          .examples = put_examples,
          .notes =
              "where entries name one element the last wins; one out of range, where it is not "
              "checked, is left out"};
}

const RegisterConverter scatters{
    {.op = "aten::embedding_dense_backward",
     .unsupported = embedding_unsupported,
     .convert = embedding_backward,
     .reads_views = {"*"},
     .epilogue = true,
     .types = types::of_table("indices i[*s], grad_output [*s e] -> [. e]"),
     .examples = embedding_examples},
    {.op = "aten::index_add",
     .unsupported = slices_unsupported,
     .expand = put_slices,
     .types = types::index_reduce},
    {.op = "aten::index_copy",
     .unsupported = slices_unsupported,
     .expand = put_slices,
     .types = types::index_reduce},
    in_float32(put("aten::index_put")),
    in_float32(put("aten::_unsafe_index_put")),
};

}  // namespace
}  // namespace tv
