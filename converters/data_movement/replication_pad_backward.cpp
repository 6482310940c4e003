// Gradients of padding by the nearest element: along each dimension an edge gets the sum of what
// was copied from it.

#include <algorithm>

#include "converters/data_movement/pad_types.h"
#include "converters/kit/steps.h"

namespace tv {
namespace {

/// What a dimension was padded by on both sides; a negative number cuts off.
struct Pads {
  int64_t before = 0, after = 0;
};

Pads pads_of(const NodeContext& c, int64_t from_last) {
  const std::vector<int64_t> list = c.node.integers("padding");
  return {.before = list.at(static_cast<size_t>(2 * from_last)),
          .after = list.at(static_cast<size_t>(2 * from_last + 1))};
}

/// How many elements of the input, which has `size`, the result of the padding holds.
Expr kept(const Expr& size, const Pads& pads) {
  return size + Expr(std::min<int64_t>(pads.before, 0) + std::min<int64_t>(pads.after, 0));
}

std::string refusal(const NodeContext& c, int64_t rank) {
  const std::string at = "[" + c.node.op + "] ";
  if (!is_float(c.dtype("grad_output"))) return at + "gradients must be of a floating type";
  for (const Expr& pad : c.node.exprs("padding")) {
    if (!pad.is_constant()) return at + "padding depends on a shape";
  }
  const Shape& shape = c.shape("self");
  for (int64_t i = 0; i < rank; ++i) {
    const Expr count = kept(shape.at(shape.size() - 1 - static_cast<size_t>(i)), pads_of(c, i));
    const int64_t least = count.bounds(c.graph.symbols).first;
    if (least < 1 || (least == 1 && !count.is_constant())) {
      return at + "a dimension may have fewer than two elements";
    }
  }
  return "";
}

ValueId sliced(Rewriter& r, ValueId value, size_t dim, const Expr& start, const Expr& end) {
  Shape shape = r.graph().value(value).shape;
  shape.at(dim) = end - start;
  return r.add("aten::slice.Tensor",
               {tensor_arg("self", value), attr_arg("dim", Expr(static_cast<int64_t>(dim))),
                attr_arg("start", start), attr_arg("end", end), attr_arg("step", Expr(1))},
               DType::kF32, shape);
}

ValueId summed(Rewriter& r, ValueId value, size_t dim) {
  Shape shape = r.graph().value(value).shape;
  shape.at(dim) = Expr(1);
  return r.add("aten::sum.dim_IntList",
               {tensor_arg("self", value), attr_arg("dim", ints({static_cast<int64_t>(dim)})),
                attr_arg("keepdim", true)},
               DType::kF32, shape);
}

/// The gradient along one dimension, of `size` elements before the padding.
ValueId folded(Rewriter& r, ValueId grad, size_t dim, const Expr& size, const Pads& pads) {
  const Expr count = kept(size, pads), total = r.graph().value(grad).shape.at(dim);
  const int64_t first = std::max<int64_t>(pads.before, 0), last = std::max<int64_t>(pads.after, 0);
  if (count == Expr(1)) {
    grad = summed(r, grad, dim);
  } else if (first > 0 || last > 0) {
    std::vector<ValueId> parts;
    const Expr start = first > 0 ? Expr(first + 1) : Expr(0);
    const Expr end = last > 0 ? total - Expr(last + 1) : total;
    if (first > 0) parts.push_back(summed(r, sliced(r, grad, dim, Expr(0), start), dim));
    if (!(start == end)) parts.push_back(sliced(r, grad, dim, start, end));
    if (last > 0) parts.push_back(summed(r, sliced(r, grad, dim, end, total), dim));
    Shape shape = r.graph().value(grad).shape;
    shape.at(dim) = count;
    grad =
        r.add("aten::cat",
              {tensor_list_arg("tensors", parts), attr_arg("dim", Expr(static_cast<int64_t>(dim)))},
              DType::kF32, shape);
  }
  return grad;
}

void expand(const NodeContext& c, Rewriter& r, int64_t rank) {
  const Shape& shape = c.shape("self");
  ValueId grad = r.cast(c.node.input("grad_output"), DType::kF32);
  std::vector<Expr> cut;  // zeros for what was cut off, the last dimension first
  bool any_cut = false;
  for (int64_t i = 0; i < rank; ++i) {
    const size_t dim = shape.size() - 1 - static_cast<size_t>(i);
    const Pads pads = pads_of(c, i);
    grad = folded(r, grad, dim, shape.at(dim), pads);
    for (const int64_t pad : {pads.before, pads.after}) {
      cut.emplace_back(std::max<int64_t>(-pad, 0));
      any_cut = any_cut || pad < 0;
    }
  }
  if (any_cut) {
    grad = r.add("aten::constant_pad_nd",
                 {tensor_arg("self", grad), attr_arg("pad", cut), attr_arg("value", Expr(0))},
                 DType::kF32, shape);
  }
  r.replace(0, r.cast(grad, c.output().dtype));
}

Converter edges(const std::string& op, int64_t rank) {
  return {.op = op,
          .unsupported = [rank](const NodeContext& c) { return refusal(c, rank); },
          .expand = [rank](const NodeContext& c, Rewriter& r) { expand(c, r, rank); },
          .types = types::edge_pad_backward(static_cast<size_t>(rank))};
}

const RegisterConverter gradients{edges("aten::replication_pad1d_backward", 1),
                                  edges("aten::replication_pad2d_backward", 2),
                                  edges("aten::replication_pad3d_backward", 3)};

}  // namespace
}  // namespace tv
