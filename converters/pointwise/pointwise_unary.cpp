// Operators of one tensor without arguments: one row each, which is all that such an operator takes
// (docs/adding_an_operator.md).

#include "converters/kit/pointwise_rules.h"

namespace tv {
namespace {

/// Computed in floats, of integers too: op, formula of $0 (math.glsl holds the tv_ functions),
/// largest error, and where that is measured.
PointwiseRule real(const char* op, const char* formula, const char* error, const char* domain) {
  return {.op = op,
          .formula = PointwiseRow{.on_float = formula, .error = error, .domain = domain},
          .compute = Compute::kFloat};
}

/// Computed in the tensor's own type.
PointwiseRule any(const char* op, const PointwiseRow& formula) {
  return {.op = op, .formula = formula};
}

/// By the formula of another.
PointwiseRule same(const char* op, const char* function) {
  return {.op = op, .function = function};
}

const RegisterPointwise unary({
    any("aten::neg", {.on_float = "tv_neg($0)", .on_int = "-$0", .on_int64 = "-$0"}),
    any("aten::abs",
        {.on_float = "abs($0)", .on_int = "abs($0)", .on_int64 = "abs($0)", .on_bool = "$0"}),
    any("aten::sign",
        {.on_float = "tv_sign($0)", .on_int = "sign($0)", .on_int64 = "sign($0)", .on_bool = "$0"}),
    same("aten::sgn", "sign"),
    same("aten::positive", "copy"),
    any("aten::square", {.on_float = "$0 * $0",
                         .on_int = "$0 * $0",
                         .on_int64 = "$0 * $0",
                         .on_bool = "$0",
                         .error = "0.5",
                         .domain = "every"}),
    any("aten::floor", {.on_float = "floor($0)", .on_int = "$0", .on_int64 = "$0"}),
    any("aten::ceil", {.on_float = "ceil($0)", .on_int = "$0", .on_int64 = "$0"}),
    any("aten::trunc", {.on_float = "trunc($0)", .on_int = "$0", .on_int64 = "$0"}),
    same("aten::fix", "trunc"),
    any("aten::round", {.on_float = "roundEven($0)", .on_int = "$0", .on_int64 = "$0"}),
    any("aten::frac", {.on_float = "$0 - trunc($0)"}),
    any("aten::isnan", {.on_float = "tv_isnan($0)",
                        .on_int = "false",
                        .on_int64 = "false",
                        .on_bool = "false",
                        .gives_bool = true}),
    any("aten::isinf", {.on_float = "tv_isinf($0)",
                        .on_int = "false",
                        .on_int64 = "false",
                        .on_bool = "false",
                        .gives_bool = true}),
    any("aten::isfinite", {.on_float = "tv_isfinite($0)",
                           .on_int = "true",
                           .on_int64 = "true",
                           .on_bool = "true",
                           .gives_bool = true}),
    any("aten::signbit", {.on_float = "floatBitsToInt($0) < 0",
                          .on_int = "$0 < 0",
                          .on_int64 = "$0 < 0",
                          .on_bool = "false",
                          .gives_bool = true}),
    any("aten::logical_not", {.on_float = "$0 == 0.0",
                              .on_int = "$0 == 0",
                              .on_int64 = "$0 == 0",
                              .on_bool = "!$0",
                              .gives_bool = true}),
    any("aten::bitwise_not", {.on_int = "~$0", .on_int64 = "~$0", .on_bool = "!$0"}),
    in_float32(real("aten::reciprocal", "tv_div(1.0, $0)", "0.5", "every")),
    real("aten::sqrt", "tv_sqrt($0)", "1", "every"),
    in_float32(real("aten::rsqrt", "tv_rsqrt($0)", "1", "every")),
    in_float32(real("aten::exp", "tv_exp($0)", "1.5", "every")),
    real("aten::exp2", "tv_exp2($0)", "1.5", "every"),
    in_float32(real("aten::expm1", "tv_expm1($0)", "2", "every")),
    in_float32(real("aten::log", "tv_log($0)", "1", "every")),
    in_float32(real("aten::log2", "tv_log2($0)", "3", "every")),
    in_float32(real("aten::log10", "tv_log10($0)", "4", "every")),
    in_float32(real("aten::log1p", "tv_log1p($0)", "2", "every")),
    real("aten::sin", "tv_sin($0)", "3", "every"),
    real("aten::cos", "tv_cos($0)", "3", "every"),
    real("aten::tan", "tv_tan($0)", "4", "every"),
    real("aten::sinh", "tv_sinh($0)", "3", "every"),
    real("aten::cosh", "tv_cosh($0)", "3", "every"),
    real("aten::tanh", "tv_tanh($0)", "3", "every"),
    real("aten::asin", "tv_asin($0)", "3", "every"),
    real("aten::acos", "tv_acos($0)", "3", "every"),
    real("aten::atan", "tv_atan($0)", "2", "every"),
    real("aten::asinh", "tv_asinh($0)", "3", "every"),
    real("aten::acosh", "tv_acosh($0)", "3", "every"),
    real("aten::atanh", "tv_atanh($0)", "3", "every"),
    real("aten::erf", "tv_erf($0)", "2", "every"),
    real("aten::erfc", "tv_erfc($0)", "4", "every"),
    real("aten::erfinv", "tv_erfinv($0)", "4", "every"),
    real("aten::sigmoid", "tv_sigmoid($0)", "5", "every"),
    real("aten::log_sigmoid", "tv_log_sigmoid($0)", "3", "every"),
    real("aten::special_entr",
         "$0 > 0.0 ? -$0 * tv_log($0) : $0 == 0.0 ? 0.0 : $0 < 0.0 ? -TV_INF : $0", "2", "every"),
    real("aten::special_log_ndtr", "tv_log_ndtr($0)", "8", "every"),
});

}  // namespace
}  // namespace tv
