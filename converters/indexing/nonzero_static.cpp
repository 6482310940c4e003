// nonzero_static: the coordinates of the first `size` elements that are not 0, in order. Each is
// looked for in their running count; rows that are left are filled.

#include "converters/kit/steps.h"

namespace tv {
namespace {

/// int32 [size]: the flat index of each row's element, -1 if there is none.
ValueId places(const NodeContext& c, Rewriter& r, const Expr& count, const Expr& size) {
  const ValueId x = r.reshape(c.node.input("self"), {count});
  const ValueId chosen =
      c.dtype("self") == DType::kBool ? x : r.pointwise("ne", {x}, DType::kBool, {0.0});
  const ValueId counted = r.add("aten::cumsum",
                                {tensor_arg("self", r.cast(chosen, DType::kI32)),
                                 attr_arg("dim", Expr(0)), attr_arg("dtype", DType::kI32)},
                                DType::kI32, {count});
  // The k-th of them is where the count reaches k.
  const ValueId wanted = r.add("tv::fill", {attr_arg("start", Expr(1)), attr_arg("step", Expr(1))},
                               DType::kI32, {size});
  const ValueId found = r.add("aten::searchsorted.Tensor",
                              {tensor_arg("sorted_sequence", counted), tensor_arg("self", wanted),
                               attr_arg("out_int32", true), attr_arg("right", false),
                               attr_arg("side", std::monostate{}), tensor_arg("sorter", kNoValue)},
                              DType::kI32, {size});
  const ValueId none = r.add("tv::fill", {attr_arg("start", Expr(-1)), attr_arg("step", Expr(0))},
                             DType::kI32, {size});
  const ValueId is_there =
      r.pointwise("lt", {found}, DType::kBool, {static_cast<double>(*count.constant())});
  return r.pointwise("where", {is_there, found, none}, DType::kI32);
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

void types(NodeTypes& t) { t.gives({t.node().expr("size"), t.rank("self")}); }

const RegisterConverter nonzeros{
    {.op = "aten::nonzero_static", .unsupported = unsupported, .expand = expand, .types = types}};

}  // namespace
}  // namespace tv
