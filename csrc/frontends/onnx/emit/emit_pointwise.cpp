// Emitter: functions of single elements.

#include "csrc/frontends/onnx/emit/emit.h"

namespace tv::onnx {

Tensor Emitter::cast(const Tensor& x, DType dtype) {
  if (x.dtype == dtype) return x;
  return node(
      "aten::_to_copy",
      {arg("self", x), dtype_arg(dtype), attr_arg("layout", {}), attr_arg("device", {}),
       attr_arg("pin_memory", {}), attr_arg("non_blocking", false), attr_arg("memory_format", {})},
      dtype, x.shape);
}

Tensor Emitter::copy(const Tensor& x) {
  return node("aten::clone", {arg("self", x), attr_arg("memory_format", {})}, x.dtype, x.shape);
}

Tensor Emitter::unary(const std::string& function, const Tensor& x) {
  return node("aten::" + function, {arg("self", x)}, x.dtype, x.shape);
}

Tensor Emitter::test(const std::string& function, const Tensor& x) {
  return node("aten::" + function, {arg("self", x)}, DType::kBool, x.shape);
}

Tensor Emitter::binary(const std::string& function, const Tensor& a, const Tensor& b) {
  if (a.dtype != b.dtype) {
    throw Error(ErrorKind::kUser, "operands of types " + std::string(name(a.dtype)) + " and " +
                                      std::string(name(b.dtype)));
  }
  std::vector<Arg> list = {arg("self", a), arg("other", b)};
  if (function == "pow") list[1].name = "exponent";
  if (function == "add" || function == "sub") list.push_back(attr_arg("alpha", Expr(1)));
  const bool plain = function == "maximum" || function == "minimum" || function == "atan2";
  const std::string overload = plain ? "" : function == "pow" ? ".Tensor_Tensor" : ".Tensor";
  return node("aten::" + function + overload, std::move(list), a.dtype,
              broadcast(a.shape, b.shape));
}

Tensor Emitter::with(const std::string& function, const Tensor& a, double b) {
  std::vector<Arg> list = {arg("self", a),
                           number_arg(function == "pow" ? "exponent" : "other", a.dtype, b)};
  if (function == "add" || function == "sub" || function == "rsub") {
    list.push_back(attr_arg("alpha", Expr(1)));
  }
  const std::string overload = function == "pow" ? ".Tensor_Scalar" : ".Scalar";
  const bool is_test = function == "eq" || function == "ne" || function == "lt" ||
                       function == "le" || function == "gt" || function == "ge";
  return node("aten::" + function + overload, std::move(list), is_test ? DType::kBool : a.dtype,
              a.shape);
}

Tensor Emitter::compare(const std::string& function, const Tensor& a, const Tensor& b) {
  if (a.dtype != b.dtype) {
    throw Error(ErrorKind::kUser, "operands of types " + std::string(name(a.dtype)) + " and " +
                                      std::string(name(b.dtype)));
  }
  const bool logical = function.starts_with("logical");
  return node("aten::" + function + (logical ? "" : ".Tensor"), {arg("self", a), arg("other", b)},
              DType::kBool, broadcast(a.shape, b.shape));
}

Tensor Emitter::divide(const Tensor& a, const Tensor& b, const std::string& rounding) {
  return node("aten::div.Tensor_mode",
              {arg("self", a), arg("other", b), attr_arg("rounding_mode", rounding)}, a.dtype,
              broadcast(a.shape, b.shape));
}

Tensor Emitter::where(const Tensor& condition, const Tensor& a, const Tensor& b) {
  const Shape shape = broadcast(condition.shape, broadcast(a.shape, b.shape));
  return node("aten::where.self", {arg("condition", condition), arg("self", a), arg("other", b)},
              a.dtype, shape);
}

Tensor Emitter::clamp(const Tensor& x, double low, double high) {
  return node("aten::clamp",
              {arg("self", x), number_arg("min", x.dtype, low), number_arg("max", x.dtype, high)},
              x.dtype, x.shape);
}

}  // namespace tv::onnx
