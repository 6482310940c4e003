#include "converters/complex/complex.h"

namespace tv {

bool is_complex(const NodeContext& c, const std::string& name) {
  return (" " + c.node.text("complex") + " ").find(" " + name + " ") != std::string::npos;
}

bool is_complex(const NodeContext& c, const std::string& name, size_t i) {
  return is_complex(c, name) || is_complex(c, name + "." + std::to_string(i));
}

Shape without_pair(Shape shape) {
  shape.pop_back();
  return shape;
}

Shape with_pair(Shape shape) {
  shape.emplace_back(2);
  return shape;
}

ValueId filled(Rewriter& r, double value, DType dtype, const Shape& shape) {
  return r.add("aten::full", {attr_arg("size", shape), attr_arg("fill_value", value)}, dtype,
               shape);
}

ValueId joined(Rewriter& r, ValueId re, ValueId im) {
  Graph& graph = r.graph();
  const DType dtype = graph.value(re).dtype;
  if (graph.value(re).shape != graph.value(im).shape) {
    // Broadcasts, whatever is in the other part: the condition decides nothing.
    const ValueId yes = filled(r, 1, DType::kBool, {});
    const ValueId wide_re = r.pointwise("where", {yes, re, im}, dtype);
    im = r.pointwise("where", {yes, im, re}, dtype);
    re = wide_re;
  }
  const Shape shape = graph.value(re).shape;
  return r.add("aten::stack",
               {tensor_list_arg("tensors", {re, im}),
                attr_arg("dim", Expr(static_cast<int64_t>(shape.size())))},
               dtype, with_pair(shape));
}

ValueId part(Rewriter& r, ValueId pair, int64_t which) {
  const Value& value = r.graph().value(pair);
  const DType dtype = value.dtype;
  const Shape shape = without_pair(value.shape);
  if (product(shape) == Expr(0))
    return filled(r, 0, dtype, shape);  // a view of nothing has no offset
  return r.add("aten::select.int",
               {tensor_arg("self", pair), attr_arg("dim", Expr(static_cast<int64_t>(shape.size()))),
                attr_arg("index", Expr(which))},
               dtype, shape);
}

ValueId with_zero(Rewriter& r, ValueId re, DType dtype) {
  const ValueId x = r.cast(re, dtype);
  return joined(r, x, filled(r, 0, dtype, r.graph().value(x).shape));
}

ValueId as_complex(const NodeContext& c, Rewriter& r, const std::string& arg, DType dtype) {
  const ValueId x = c.node.input(arg);
  return is_complex(c, arg) ? r.cast(x, dtype) : with_zero(r, x, dtype);
}

}  // namespace tv
