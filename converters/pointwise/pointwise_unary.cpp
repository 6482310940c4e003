// Operators of one tensor without arguments: one row each.

#include "converters/kit/pointwise_rules.h"

namespace tv {
namespace {

PointwiseRule real(const char* op, const char* function) {
  return {.op = op, .function = function, .compute = Compute::kFloat};
}
PointwiseRule any(const char* op, const char* function) { return {.op = op, .function = function}; }

const RegisterPointwise unary({
    any("aten::neg", "neg"),
    any("aten::abs", "abs"),
    any("aten::sign", "sign"),
    any("aten::sgn", "sign"),
    any("aten::positive", "copy"),
    any("aten::square", "square"),
    any("aten::floor", "floor"),
    any("aten::ceil", "ceil"),
    any("aten::trunc", "trunc"),
    any("aten::fix", "trunc"),
    any("aten::round", "round"),
    any("aten::frac", "frac"),
    any("aten::isnan", "isnan"),
    any("aten::isinf", "isinf"),
    any("aten::isfinite", "isfinite"),
    any("aten::signbit", "signbit"),
    any("aten::logical_not", "logical_not"),
    any("aten::bitwise_not", "bitwise_not"),
    real("aten::reciprocal", "reciprocal"),
    real("aten::sqrt", "sqrt"),
    real("aten::rsqrt", "rsqrt"),
    real("aten::exp", "exp"),
    real("aten::exp2", "exp2"),
    real("aten::expm1", "expm1"),
    real("aten::log", "log"),
    real("aten::log2", "log2"),
    real("aten::log10", "log10"),
    real("aten::log1p", "log1p"),
    real("aten::sin", "sin"),
    real("aten::cos", "cos"),
    real("aten::tan", "tan"),
    real("aten::sinh", "sinh"),
    real("aten::cosh", "cosh"),
    real("aten::tanh", "tanh"),
    real("aten::asin", "asin"),
    real("aten::acos", "acos"),
    real("aten::atan", "atan"),
    real("aten::asinh", "asinh"),
    real("aten::acosh", "acosh"),
    real("aten::atanh", "atanh"),
    real("aten::erf", "erf"),
    real("aten::erfc", "erfc"),
    real("aten::erfinv", "erfinv"),
    real("aten::sigmoid", "sigmoid"),
    real("aten::log_sigmoid", "log_sigmoid"),
});

}  // namespace
}  // namespace tv
