// embedding_renorm: rows that the indices name and whose norm is above max_norm are scaled down to
// it.

#include "converters/kit/steps.h"
#include "csrc/rewriter.h"

namespace tv {
namespace {

void renorm(const NodeContext& c, Rewriter& r) {
  const ValueId self = c.node.input("self");
  const Shape shape = c.shape("self");
  const Expr rows = shape.at(0), entries = product(c.shape("indices"));
  const double limit = c.node.number("max_norm");
  const ValueId x = r.cast(self, DType::kF32);
  const ValueId norm = r.add("aten::linalg_vector_norm",
                             {tensor_arg("self", x), attr_arg("ord", c.node.number("norm_type")),
                              attr_arg("dim", std::vector<Expr>{Expr(1)}),
                              attr_arg("keepdim", true), attr_arg("dtype", std::monostate{})},
                             DType::kF32, {rows, Expr(1)});
  const auto filled = [&](double value, const Shape& size) {
    return r.add("aten::full", {attr_arg("size", size), attr_arg("fill_value", value)}, DType::kF32,
                 size);
  };
  const ValueId named = r.add(
      "aten::scatter.value",
      {tensor_arg("self", filled(0, {rows})), attr_arg("dim", Expr(0)),
       tensor_arg("index", r.reshape(c.node.input("indices"), {entries})), attr_arg("value", 1.0)},
      DType::kF32, {rows});
  const ValueId is_named =
      r.pointwise("ne", {r.reshape(named, {rows, Expr(1)})}, DType::kBool, {0.0});
  const ValueId is_long = r.pointwise("gt", {norm}, DType::kBool, {limit});
  const ValueId changes = r.pointwise("logical_and", {is_named, is_long}, DType::kBool);
  // As torch has it: max_norm / (norm + 1e-7).
  const ValueId scale =
      r.pointwise("rdiv", {r.pointwise("add", {norm}, DType::kF32, {1e-7})}, DType::kF32, {limit});
  const ValueId scaled = r.pointwise("mul", {x, scale}, DType::kF32);
  r.replace(0, r.cast(r.pointwise("where", {changes, scaled, x}, DType::kF32), c.output().dtype));
}

std::string unsupported(const NodeContext& c) {
  if (c.shape("self").size() != 2) return "[" + c.node.op + "] the table must be a matrix";
  return floats_only(c, "self");
}

const RegisterConverter renorms{{.op = "aten::embedding_renorm",
                                 .unsupported = unsupported,
                                 .expand = renorm,
                                 .types = "self [v e], indices i[*] -> [v e]"}};

}  // namespace
}  // namespace tv
