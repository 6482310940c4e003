// Fake quantisation: floats rounded to the steps of a grid, as quantisation-aware training has
// them, and a mask of what lies within the grid.

#include <cmath>
#include <string>
#include <string_view>
#include <utility>

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

std::string channels_unsupported(const NodeContext& c) {
  if (!is_integer(c.dtype("zero_point"))) return "[" + c.node.op + "] zero points that are floats";
  return unsupported(c);
}

/// Of tensors of parameters: one element, or one for each place along `axis`.
Shape parameters_shape(const NodeContext& c) {
  if (!c.node.has("axis")) return {};
  const Shape whole = c.shape("self");
  Shape shape(whole.size(), Expr(1));
  const auto axis =
      static_cast<size_t>(c.wrap(c.node.integer("axis"), static_cast<int64_t>(whole.size())));
  shape[axis] = whole[axis];
  return shape;
}

/// `scale` and `zero_point` are both numbers or both tensors.
void fake_quantize(const NodeContext& c, Rewriter& r) {
  std::vector<ValueId> operands = {r.cast(c.node.input("self"), DType::kF32)};
  std::vector<double> numbers;
  for (const char* arg : {"scale", "zero_point"}) {
    if (c.node.arg(arg).is_tensor) {
      ValueId value = r.reshape(c.node.input(arg), parameters_shape(c));
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

/// Scales and zero points by channel.
void of_channels(NodeTypes& t) {
  const Shape shape = t.shape("self");
  t.want(!shape.empty(), "a scalar has no channels");
  const int64_t axis = t.wrap(t.integer("axis", 0), static_cast<int64_t>(shape.size()));
  for (const char* arg : {"scale", "zero_point"}) {
    t.equal(t.shape(arg), {shape[static_cast<size_t>(axis)]}, arg);
  }
}

Converter of_each_channel() {
  Converter made = converter("aten::fake_quantize_per_channel_affine_cachemask");
  made.unsupported = channels_unsupported;
  return typed(std::move(made), TypeRule("self [*s] -> [*s], [*s]") & of_channels);
}

const RegisterConverter fake_quantizers{
    of_each_channel(),
    typed(converter("aten::fake_quantize_per_tensor_affine_cachemask"), "self [*s] -> [*s], [*s]"),
    typed(converter("aten::_fake_quantize_per_tensor_affine_cachemask_tensor_qparams"),
          "self [*s], scale [*{0,1}], zero_point [*{0,1}], fake_quant_enabled [*{0,1}] -> "
          "[*s], [*s]")};

}  // namespace
}  // namespace tv
