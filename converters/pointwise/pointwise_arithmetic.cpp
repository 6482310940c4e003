// Operators of two or three tensors: arithmetic, powers, remainders, minimum and maximum.

#include <cmath>

#include "converters/kit/pointwise_rules.h"
#include "csrc/codegen/glsl_types.h"

namespace tv {
namespace {

using Args = std::vector<std::string>;
const Args kTwo = {"self", "other"};

/// add, sub and rsub: without `alpha` where it is 1.
std::function<std::string(const NodeContext&, PointwiseInstr&)> with_alpha(std::string function) {
  return [function = std::move(function)](const NodeContext& c, PointwiseInstr& instr) {
    if (c.node.arg("alpha").is_tensor || c.node.number("alpha") != 1) return function + "_scaled";
    (instr.integers.empty() ? instr.scalars.pop_back() : instr.integers.pop_back());
    return function;
  };
}

PointwiseRule scaled(const char* op, const char* function) {
  return {.op = op,
          .args = {"self", "other", "alpha"},
          .untyped = {"alpha"},
          .choose = with_alpha(function)};
}

PointwiseRule two(const char* op, const char* function, Compute compute = Compute::kPromoted) {
  return {.op = op, .function = function, .args = kTwo, .compute = compute};
}

/// div with rounding_mode None, "floor" or "trunc". Only the first computes integers as floats.
std::string rounding(const NodeContext& c, PointwiseInstr& instr) {
  const bool has_mode = c.node.has("rounding_mode");
  if (has_mode) return c.node.text("rounding_mode") == "floor" ? "div_floor" : "div_trunc";
  if (!is_float(instr.compute)) {
    instr.scalars.assign(instr.integers.begin(), instr.integers.end());
    instr.integers.clear();
    instr.compute = DType::kF32;
  }
  return "div";
}

/// pow with a constant exponent, where a cheaper row gives the same.
std::string constant_power(const NodeContext& c, PointwiseInstr& instr) {
  if (c.node.arg("exponent").is_tensor) return "pow";
  const double e = c.node.number("exponent");
  const auto plain = [&](const char* function) {
    instr.scalars.clear();
    instr.integers.clear();
    return function;
  };
  if (e == 1) return plain("copy");
  if (e == 2) return plain("square");
  if (e == 3) return plain("cube");
  if (!is_float(instr.compute)) return "pow";
  if (e == 0.5) return plain("sqrt");
  if (e == -0.5) return plain("rsqrt");
  if (e == -1) return plain("reciprocal");
  if (e == -2) return plain("inverse_square");
  return "pow";
}

/// Shifts take the width of the type they wrap in.
std::function<std::string(const NodeContext&, PointwiseInstr&)> shift(std::string function) {
  return [function = std::move(function)](const NodeContext&, PointwiseInstr& instr) {
    instr.integers.push_back(8 * size_bytes(instr.compute));
    return function;
  };
}

PointwiseRule shifted(const char* op, const char* function) {
  return {.op = op, .args = kTwo, .choose = shift(function)};
}

std::string decimals(const NodeContext& c, PointwiseInstr& instr) {
  const double n = c.node.number("decimals");
  if (is_float(instr.compute)) instr.scalars = {std::pow(10.0, std::fabs(n)), n < 0 ? 1.0 : 0.0};
  return "";
}

/// The one bound that is there, or both. Of equal zeros PyTorch takes the element where bounds are
/// numbers, and the bound where they are tensors.
std::string bounds(const NodeContext& c, PointwiseInstr&) {
  const bool low = c.node.has("min"), high = c.node.has("max");
  const bool tensors = c.node.op == "aten::clamp.Tensor";
  if (low && high) return tensors ? "clamp_tensor" : "clamp";
  if (!low && !high) return "copy";
  return std::string(tensors ? "" : "r") + (low ? "maximum" : "minimum");
}

const RegisterPointwise arithmetic({
    scaled("aten::add.Tensor", "add"),
    scaled("aten::add.Scalar", "add"),
    scaled("aten::sub.Tensor", "sub"),
    scaled("aten::sub.Scalar", "sub"),
    scaled("aten::rsub.Tensor", "rsub"),
    scaled("aten::rsub.Scalar", "rsub"),
    two("aten::mul.Tensor", "mul"),
    two("aten::mul.Scalar", "mul"),
    two("aten::div.Tensor", "div", Compute::kFloat),
    two("aten::div.Scalar", "div", Compute::kFloat),
    two("aten::true_divide.Tensor", "div", Compute::kFloat),
    two("aten::true_divide.Scalar", "div", Compute::kFloat),
    {.op = "aten::div.Tensor_mode", .args = kTwo, .choose = rounding},
    {.op = "aten::div.Scalar_mode", .args = kTwo, .choose = rounding},
    two("aten::floor_divide", "div_floor"),
    two("aten::floor_divide.Scalar", "div_floor"),
    two("aten::fmod.Tensor", "fmod"),
    two("aten::fmod.Scalar", "fmod"),
    two("aten::remainder.Tensor", "remainder"),
    two("aten::remainder.Scalar", "remainder"),
    {.op = "aten::remainder.Scalar_Tensor", .function = "rremainder", .args = {"other", "self"}},
    two("aten::gcd", "gcd"),
    two("aten::lcm", "lcm"),
    two("aten::maximum", "maximum"),
    two("aten::minimum", "minimum"),
    two("aten::fmax", "fmax"),
    two("aten::fmin", "fmin"),
    two("aten::atan2", "atan2", Compute::kFloat),
    two("aten::hypot", "hypot", Compute::kFloat),
    two("aten::logaddexp", "logaddexp", Compute::kFloat),
    two("aten::copysign.Tensor", "copysign", Compute::kFloat),
    two("aten::copysign.Scalar", "copysign", Compute::kFloat),
    two("aten::xlogy.Tensor", "xlogy", Compute::kFloat),
    two("aten::xlogy.Scalar_Other", "xlogy", Compute::kFloat),
    {.op = "aten::xlogy.Scalar_Self",
     .function = "rxlogy",
     .args = {"other", "self"},
     .compute = Compute::kFloat},
    {.op = "aten::heaviside", .function = "heaviside", .args = {"self", "values"}},
    in_float32({.op = "aten::pow.Tensor_Tensor", .function = "pow", .args = {"self", "exponent"}}),
    in_float32(
        {.op = "aten::pow.Tensor_Scalar", .args = {"self", "exponent"}, .choose = constant_power}),
    in_float32({.op = "aten::pow.Scalar", .function = "rpow", .args = {"exponent", "self"}}),
    {.op = "aten::lerp.Scalar",
     .function = "lerp",
     .args = {"self", "end", "weight"},
     .compute = Compute::kOutput},
    {.op = "aten::lerp.Tensor",
     .function = "lerp",
     .args = {"self", "end", "weight"},
     .compute = Compute::kOutput},
    {.op = "aten::addcmul",
     .function = "addcmul",
     .args = {"self", "tensor1", "tensor2", "value"},
     .compute = Compute::kOutput},
    {.op = "aten::addcdiv",
     .function = "addcdiv",
     .args = {"self", "tensor1", "tensor2", "value"},
     .compute = Compute::kOutput},
    {.op = "aten::round.decimals", .function = "round_decimals", .choose = decimals},
    {.op = "aten::clamp", .args = {"self", "min", "max"}, .choose = bounds},
    {.op = "aten::clamp.Tensor", .args = {"self", "min", "max"}, .choose = bounds},
    {.op = "aten::clamp_min", .function = "rmaximum", .args = {"self", "min"}},
    {.op = "aten::clamp_min.Tensor", .function = "maximum", .args = {"self", "min"}},
    {.op = "aten::clamp_max", .function = "rminimum", .args = {"self", "max"}},
    {.op = "aten::clamp_max.Tensor", .function = "minimum", .args = {"self", "max"}},
    shifted("aten::bitwise_left_shift.Tensor", "shift_left"),
    shifted("aten::bitwise_left_shift.Tensor_Scalar", "shift_left"),
    shifted("aten::bitwise_right_shift.Tensor", "shift_right"),
    shifted("aten::bitwise_right_shift.Tensor_Scalar", "shift_right"),
    shifted("aten::__lshift__.Tensor", "shift_left"),
    shifted("aten::__lshift__.Scalar", "shift_left"),
    shifted("aten::__rshift__.Tensor", "shift_right"),
    shifted("aten::__rshift__.Scalar", "shift_right"),
    {.op = "aten::bitwise_left_shift.Scalar_Tensor",
     .args = {"other", "self"},
     .choose = shift("rshift_left")},
    {.op = "aten::bitwise_right_shift.Scalar_Tensor",
     .args = {"other", "self"},
     .choose = shift("rshift_right")},
});

}  // namespace
}  // namespace tv
