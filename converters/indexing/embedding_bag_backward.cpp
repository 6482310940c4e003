// Gradients of embedding_bag: those of the rows that the indices name, added up as embedding's are.

#include "converters/indexing/indexing_types.h"
#include "converters/kit/steps.h"
#include "csrc/rewriter.h"

namespace tv {
namespace {

enum Mode : int64_t { kSum, kMean, kMax };

/// The bag of each index.
ValueId bags_of_indices(const NodeContext& c, Rewriter& r) {
  const Shape& indices = c.shape("indices");
  if (c.node.find("offsets") == nullptr) return c.node.input("offset2bag");
  return r.add("tv::embedding_bag_part",
               {tensor_arg("indices", c.node.input("indices")),
                tensor_arg("offsets", c.node.input("offsets")), attr_arg("part", Expr(0)),
                attr_arg("bags", c.shape("grad").at(0)), attr_arg("padding_idx", Expr(-1))},
               c.dtype("indices"), indices);
}

ValueId rows_of(Rewriter& r, ValueId table, ValueId indices) {
  const Value& value = r.graph().value(table);
  const DType dtype = value.dtype;
  Shape shape = value.shape;
  shape[0] = r.graph().value(indices).shape.at(0);
  return r.add("aten::index_select",
               {tensor_arg("self", table), attr_arg("dim", Expr(0)), tensor_arg("index", indices)},
               dtype, shape);
}

ValueId as_column(Rewriter& r, ValueId value) {
  Shape shape = r.graph().value(value).shape;
  shape.emplace_back(1);
  return r.reshape(value, shape);
}

/// Each column of a bag goes to the row that was the largest there.
void backward_of_largest(const NodeContext& c, Rewriter& r) {
  const ValueId sizes = as_column(r, c.node.input("bag_size"));
  const ValueId empty = r.pointwise("eq", {sizes}, DType::kBool, {0.0});
  const DType index_type = c.dtype("maximum_indices"), dtype = c.output().dtype;
  const auto filled = [&](double value, DType type, const Shape& shape) {
    return r.add("aten::full", {attr_arg("size", shape), attr_arg("fill_value", value)}, type,
                 shape);
  };
  // What is out of range is left out.
  const ValueId rows = r.pointwise(
      "where", {empty, filled(-1, index_type, {}), c.node.input("maximum_indices")}, index_type);
  r.replace(0, r.add("aten::scatter_add",
                     {tensor_arg("self", filled(0, dtype, c.output().shape)),
                      attr_arg("dim", Expr(0)), tensor_arg("index", rows),
                      tensor_arg("src", c.node.input("grad")), indices_of_nothing()},
                     dtype, c.output().shape));
}

void backward(const NodeContext& c, Rewriter& r) {
  const int64_t mode = c.node.integer("mode");
  if (mode == kMax) return backward_of_largest(c, r);
  const ValueId bags = bags_of_indices(c, r);
  ValueId rows = r.cast(rows_of(r, c.node.input("grad"), bags), DType::kF32);
  if (c.node.has("per_sample_weights")) {
    const ValueId weights = as_column(r, c.node.input("per_sample_weights"));
    rows = r.pointwise("mul", {rows, r.cast(weights, DType::kF32)}, DType::kF32);
  }
  if (mode == kMean) {
    const ValueId sizes = as_column(r, rows_of(r, c.node.input("bag_size"), bags));
    rows = r.pointwise(
        "div", {rows, r.pointwise("maximum", {r.cast(sizes, DType::kF32)}, DType::kF32, {1.0})},
        DType::kF32);
  }
  const ValueId sum = r.add(
      "aten::embedding_dense_backward",
      {tensor_arg("grad_output", rows), tensor_arg("indices", c.node.input("indices")),
       attr_arg("num_weights", c.output().shape.at(0)),
       attr_arg("padding_idx", c.node.expr("padding_idx")), attr_arg("scale_grad_by_freq", false)},
      DType::kF32, c.output().shape);
  r.replace(0, r.cast(sum, c.output().dtype));
}

std::string unsupported(const NodeContext& c) {
  if (c.node.flag("sparse")) return "[" + c.node.op + "] its result is sparse";
  if (c.node.flag("scale_grad_by_freq")) return "[" + c.node.op + "] scale_grad_by_freq";
  if (c.node.integer("mode") != kMax && c.node.find("offsets") == nullptr &&
      !(c.shape("offset2bag") == c.shape("indices"))) {
    return "[" + c.node.op + "] offset2bag must name the bag of each index";
  }
  return floats_only(c, "grad");
}

/// The product of an index's row and its bag's gradient; 0 for what is left out.
void backward_of_weights(const NodeContext& c, Rewriter& r) {
  const ValueId indices = c.node.input("indices");
  const ValueId grads =
      r.cast(rows_of(r, c.node.input("grad"), bags_of_indices(c, r)), DType::kF32);
  const ValueId rows = r.cast(rows_of(r, c.node.input("weight"), indices), DType::kF32);
  const ValueId sum =
      r.add("aten::sum.dim_IntList",
            {tensor_arg("self", r.pointwise("mul", {grads, rows}, DType::kF32)),
             attr_arg("dim", std::vector<Expr>{Expr(1)}), attr_arg("keepdim", false)},
            DType::kF32, c.output().shape);
  const int64_t padding = c.node.integer("padding_idx");
  if (padding == -1) {  // none
    r.replace(0, r.cast(sum, c.output().dtype));
    return;
  }
  const ValueId counts = r.pointwise("ne", {indices}, DType::kBool, {static_cast<double>(padding)});
  const ValueId zero = r.add("aten::full", {attr_arg("size", Shape{}), attr_arg("fill_value", 0.0)},
                             DType::kF32, {});
  r.replace(0, r.cast(r.pointwise("where", {counts, sum, zero}, DType::kF32), c.output().dtype));
}

const RegisterConverter gradients{
    {.op = "aten::_embedding_bag_backward",
     .unsupported = unsupported,
     .expand = backward,
     .types =
         types::of_table("grad [b e], indices i[n], offsets i[.], offset2bag i[.], bag_size i[.], "
                         "maximum_indices i[*], per_sample_weights [n] -> [. e]")},
    {.op = "aten::_embedding_bag_dense_backward",
     .unsupported = unsupported,
     .expand = backward,
     .types = types::of_table("grad [b e], indices i[n], offset2bag i[n], bag_size i[.], "
                              "maximum_indices i[*], per_sample_weights [n] -> [. e]")},
    {.op = "aten::_embedding_bag_per_sample_weights_backward",
     .unsupported = [](const NodeContext& c) { return floats_only(c, "weight"); },
     .expand = backward_of_weights,
     .types = "grad [b e], weight [. e], indices i[n], offsets i[.], offset2bag i[n] -> [n]"},
};

}  // namespace
}  // namespace tv
