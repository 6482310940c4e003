// aten::_scaled_mm: a product of small floating-point numbers, whose scales multiply the sum. The
// numbers are decoded and multiplied in float32, which their products are exact in; the result is
// rounded once.

#include "converters/kit/flops.h"
#include "converters/kit/steps.h"
#include "converters/quantised/dequantize.h"

namespace tv {
namespace {

/// One scale, or one for each row (column) of the result.
std::string scale_refusal(const NodeContext& c, const char* arg, size_t dim) {
  const Shape& scale = c.shape(arg);
  const Shape& out = c.output().shape;
  if (c.dtype(arg) != DType::kF32) {
    return std::string(arg) + " is of " + std::string(name(c.dtype(arg))) + ", want float32";
  }
  if (product(scale) == Expr(1)) return "";
  const bool of_rows = scale.size() == 2 && scale[dim] == out[dim] && scale[1 - dim] == Expr(1);
  return of_rows ? "" : std::string(arg) + " has scales of blocks";
}

std::string unsupported(const NodeContext& c) {
  std::string reason = scale_refusal(c, "scale_a", 0);
  if (reason.empty()) reason = scale_refusal(c, "scale_b", 1);
  if (c.node.has("scale_result")) reason = "a scale of the result";
  if (!is_float(c.output().dtype)) reason = "a result of small floating-point numbers";
  for (const char* arg : {"self_format", "mat2_format"}) {
    const bool known = c.node.has(arg) && is_small_float(c.node.text(arg));
    if (!known) reason = "an operand that is not of small floating-point numbers";
  }
  return reason.empty() ? "" : "[aten::_scaled_mm] " + reason;
}

ValueId decoded(const NodeContext& c, Rewriter& rw, const std::string& arg) {
  return dequantize_of(rw, {.input = c.node.input(arg), .format = c.node.text(arg + "_format")},
                       DType::kF32, c.shape(arg));
}

ValueId broadcast_scale(const NodeContext& c, Rewriter& rw, const char* arg) {
  const bool one = product(c.shape(arg)) == Expr(1);
  return one ? rw.reshape(c.node.input(arg), {1, 1}) : c.node.input(arg);
}

void expand(const NodeContext& c, Rewriter& rw) {
  const Shape out = c.output().shape;
  const ValueId a = decoded(c, rw, "self"), b = decoded(c, rw, "mat2");
  ValueId y = rw.add("aten::mm", {tensor_arg("self", a), tensor_arg("mat2", b)}, DType::kF32, out);
  y = rw.pointwise("mul", {y, broadcast_scale(c, rw, "scale_a")}, DType::kF32);
  y = rw.pointwise("mul", {y, broadcast_scale(c, rw, "scale_b")}, DType::kF32);
  if (c.node.has("bias")) y = rw.pointwise("add", {y, c.node.input("bias")}, DType::kF32);
  rw.replace(0, rw.cast(y, c.output().dtype));
}

const RegisterConverter scaled_mm{{.op = "aten::_scaled_mm",
                                   .unsupported = unsupported,
                                   .expand = expand,
                                   .flops = flops_of_product("self"),
                                   .code_args = {"self", "mat2"},
                                   .translates = true,
                                   .types = "self [m k], mat2 [k n] -> [m n]",
                                   .schema = "str? self_format=None, str? mat2_format=None"}};

}  // namespace
}  // namespace tv
