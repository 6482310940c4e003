// The inverse of a matrix by its Cholesky factor: cholesky_solve for the unit matrix.

#include "converters/linalg/linalg.h"

namespace tv {
namespace {

void expand(const NodeContext& c, Rewriter& rw) {
  const Shape& shape = c.output().shape;
  const Expr count = shape.back();
  const ValueId unit = rw.add("aten::eye", {attr_arg("n", count)}, DType::kF32, {count, count});
  rw.replace(0, rw.add("aten::cholesky_solve",
                       {tensor_arg("self", expanded(rw, unit, shape)),
                        tensor_arg("input2", c.node.input("self")),
                        attr_arg("upper", c.node.flag("upper"))},
                       DType::kF32, shape));
}

const RegisterConverter inverses{
    {.op = "aten::cholesky_inverse",
     .unsupported = [](const NodeContext& c) { return matrix_refusal(c, "self"); },
     .expand = expand,
     .types = "self T[*b n n] -> T[*b n n]"}};

}  // namespace
}  // namespace tv
