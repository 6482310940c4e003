// nonzero_static: the coordinates of the first `size` elements that are not 0, in order. A running
// count says which row each of them goes to; what is left is filled.

#include "converters/kit/steps.h"

namespace tv {
namespace {

ValueId range(Rewriter& r, const Expr& count) {
  return r.add("tv::fill", {attr_arg("start", Expr(0)), attr_arg("step", Expr(1))}, DType::kI32,
               {count});
}

/// int32 [size]: the flat index of each row's element, -1 if there is none.
ValueId places(const NodeContext& c, Rewriter& r, const Expr& count, const Expr& size) {
  const ValueId x = r.reshape(c.node.input("self"), {count});
  const ValueId chosen =
      c.dtype("self") == DType::kBool ? x : r.pointwise("ne", {x}, DType::kBool, {0.0});
  const ValueId counted = r.add("aten::cumsum",
                                {tensor_arg("self", r.cast(chosen, DType::kI32)),
                                 attr_arg("dim", Expr(0)), attr_arg("dtype", DType::kI32)},
                                DType::kI32, {count});
  const ValueId row =
      r.add("aten::sub.Scalar",
            {tensor_arg("self", counted), attr_arg("other", Expr(1)), attr_arg("alpha", Expr(1))},
            DType::kI32, {count});
  // Rows past the last one are out of range, which the scatter ignores.
  const ValueId nowhere =
      r.add("tv::fill", {attr_arg("start", size), attr_arg("step", Expr(0))}, DType::kI32, {count});
  const ValueId none = r.add("tv::fill", {attr_arg("start", Expr(-1)), attr_arg("step", Expr(0))},
                             DType::kI32, {size});
  return r.add("aten::scatter.src",
               {tensor_arg("self", none), attr_arg("dim", Expr(0)),
                tensor_arg("index", r.pointwise("where", {chosen, row, nowhere}, DType::kI32)),
                tensor_arg("src", range(r, count)), indices_of_nothing()},
               DType::kI32, {size});
}

void expand(const NodeContext& c, Rewriter& r) {
  const Shape& shape = c.shape("self");
  const Expr count = product(shape), size = c.output().shape[0];
  const Expr fill = c.node.expr("fill_value");
  if (product(c.output().shape) == Expr(0) || count == Expr(0)) {
    r.replace(0, r.add("tv::fill", {attr_arg("start", fill), attr_arg("step", Expr(0))},
                       c.output().dtype, c.output().shape));
    return;
  }
  const ValueId place = places(c, r, count, size);
  const ValueId missing = r.pointwise("lt", {place}, DType::kBool, {0.0});
  std::vector<ValueId> columns(shape.size());
  int64_t inner = 1;
  for (size_t d = shape.size(); d-- > 0;) {
    const auto length = static_cast<double>(*shape[d].constant());
    const ValueId outer =
        r.pointwise("div_trunc", {place}, DType::kI32, {static_cast<double>(inner)});
    const ValueId coordinate =
        r.cast(r.pointwise("remainder", {outer}, DType::kI32, {length}), c.output().dtype);
    const auto filled = static_cast<double>(*fill.constant());
    columns[d] =
        r.reshape(r.pointwise("masked_fill", {coordinate, missing}, c.output().dtype, {filled}),
                  {size, Expr(1)});
    inner *= *shape[d].constant();
  }
  r.replace(
      0, columns.size() == 1
             ? columns[0]
             : r.add("aten::cat", {tensor_list_arg("tensors", columns), attr_arg("dim", Expr(1))},
                     c.output().dtype, c.output().shape));
}

std::string unsupported(const NodeContext& c) {
  for (const Expr& dim : c.shape("self")) {
    if (!dim.is_constant()) return "[" + c.node.op + "] needs fixed sizes";
  }
  if (!c.node.expr("fill_value").is_constant())
    return "[" + c.node.op + "] needs a fixed fill_value";
  return "";
}

const RegisterConverter nonzeros{
    {.op = "aten::nonzero_static", .unsupported = unsupported, .expand = expand}};

}  // namespace
}  // namespace tv
