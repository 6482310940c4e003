// Fake quantisation: floats rounded to the steps of a grid, as quantisation-aware training has
// them, and a mask of what lies within the grid.

#include <cmath>
#include <string_view>

#include "converters/kit/steps.h"

namespace tv {
namespace {

constexpr double kLargestWhole = 1 << 24;  // floats hold whole numbers up to here

std::string unsupported(const NodeContext& c) {
  for (const char* arg : {"quant_min", "quant_max"}) {
    const bool known =
        std::holds_alternative<Expr>(c.node.arg(arg).attr) && c.node.expr(arg).is_constant();
    if (!known) return "[" + c.node.op + "] " + arg + " must be a number";
    if (std::abs(c.node.number(arg)) > kLargestWhole)
      return "[" + c.node.op + "] " + arg + " must be within -2^24 and 2^24";
  }
  for (const char* arg : {"scale", "zero_point"}) {
    const Arg& given = c.node.arg(arg);
    const bool symbolic = !given.is_tensor && std::holds_alternative<Expr>(given.attr) &&
                          !c.node.expr(arg).is_constant();
    if (symbolic) return "[" + c.node.op + "] " + arg + " must be a number or a tensor";
  }
  return floats_only(c, "self");
}

/// `scale` and `zero_point` are both numbers or both tensors of one element.
void fake_quantize(const NodeContext& c, Rewriter& r) {
  std::vector<ValueId> operands = {r.cast(c.node.input("self"), DType::kF32)};
  std::vector<double> numbers;
  for (const char* arg : {"scale", "zero_point"}) {
    if (c.node.arg(arg).is_tensor) {
      ValueId value = r.reshape(c.node.input(arg), {});
      if (arg == std::string_view("zero_point")) value = r.cast(value, DType::kI32);  // as eager
      operands.push_back(r.cast(value, DType::kF32));
    } else {
      numbers.push_back(c.node.number(arg));
    }
  }
  for (const char* arg : {"quant_min", "quant_max"}) numbers.push_back(c.node.number(arg));

  ValueId enabled = kNoValue;
  if (c.node.has("fake_quant_enabled"))
    enabled = r.cast(r.reshape(c.node.input("fake_quant_enabled"), {}), DType::kBool);
  const auto wanted = [&](size_t k) {
    return c.node.outputs.size() > k && c.node.outputs[k] != kNoValue;
  };
  if (wanted(0)) {
    ValueId y = r.pointwise("fake_quantize", operands, DType::kF32, numbers);
    if (enabled != kNoValue) y = r.pointwise("where", {enabled, y, operands[0]}, DType::kF32);
    r.replace(0, r.cast(y, c.output(0).dtype));
  }
  if (wanted(1)) {
    ValueId within = r.pointwise("fake_quantize_mask", operands, DType::kBool, numbers);
    if (enabled != kNoValue) {
      const ValueId off = r.pointwise("logical_not", {enabled}, DType::kBool);
      within = r.pointwise("logical_or", {within, off}, DType::kBool);
    }
    r.replace(1, within);
  }
}

Converter converter(const char* op) {
  return {.op = op,
          .unsupported = unsupported,
          .expand = fake_quantize,
          .notes = "static sizes only: PyTorch has no meta kernel"};
}

const RegisterConverter fake_quantizers{
    converter("aten::fake_quantize_per_tensor_affine_cachemask"),
    converter("aten::_fake_quantize_per_tensor_affine_cachemask_tensor_qparams")};

}  // namespace
}  // namespace tv
