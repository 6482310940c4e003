#include "csrc/codegen/pointwise_table.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <utility>

#include "csrc/user_code.h"
#include "runtime/base/error.h"

namespace tv {

namespace {

// Rows of operators with several arguments or forms; those of one tensor stand with their operators
// (converters/pointwise/pointwise_unary.cpp).
// name, arity, float, int, int64, bool, bool operands, gives bool, error.
// math.glsl holds the tv_ functions; tests/accuracy measures their errors.
constexpr PointwiseRow commutes(PointwiseRow row) {
  row.commutes = true;
  return row;
}

constexpr PointwiseRow kRows[] = {
    // Copies and casts. `cast` alone rounds to a 16-bit result.
    {"copy", 1, "$0", "$0", "$0", "$0"},
    {"cast", 1, "$0", "$0", "$0", "$0"},
    {"where", 3, "$0 ? $1 : $2", "$0 ? $1 : $2", "$0 ? $1 : $2", "$0 ? $1 : $2", 1},

    // Arithmetic. Third operand of add_scaled, sub_scaled: alpha.
    commutes({"add", 2, "$0 + $1", "$0 + $1", "$0 + $1", "$0 || $1", 0, false, "0.5"}),
    {"sub", 2, "$0 - $1", "$0 - $1", "$0 - $1", nullptr, 0, false, "0.5"},
    {"rsub", 2, "$1 - $0", "$1 - $0", "$1 - $0", nullptr, 0, false, "0.5"},
    commutes({"mul", 2, "$0 * $1", "$0 * $1", "$0 * $1", "$0 && $1", 0, false, "0.5"}),
    {"add_scaled", 3, "$0 + $2 * $1", "$0 + $2 * $1", "$0 + $2 * $1", "$0 || ($2 && $1)", 0, false,
     "1 of the terms"},
    {"sub_scaled", 3, "$0 - $2 * $1", "$0 - $2 * $1", "$0 - $2 * $1", nullptr, 0, false,
     "1 of the terms"},
    {"rsub_scaled", 3, "$1 - $2 * $0", "$1 - $2 * $0", "$1 - $2 * $0", nullptr, 0, false,
     "1 of the terms"},
    {"div", 2, "tv_div($0, $1)", nullptr, nullptr, nullptr, 0, false, "0.5"},
    {"rdiv", 2, "tv_div($1, $0)", nullptr, nullptr, nullptr, 0, false, "0.5"},
    {"div_round", 2, "tv_div_round($0, $1)"},
    {"div_floor", 2, "tv_div_floor($0, $1)", "tv_div_floor($0, tv_divisor($1))",
     "tv_div_floor($0, tv_divisor($1))"},
    {"div_trunc", 2, "trunc(tv_div($0, $1))", "tv_div_trunc($0, tv_divisor($1))",
     "tv_div_trunc($0, tv_divisor($1))"},
    {"fmod", 2, "tv_fmod($0, $1)", "tv_fmod($0, tv_divisor($1))", "tv_fmod($0, tv_divisor($1))"},
    {"remainder", 2, "tv_remainder($0, $1)", "tv_remainder($0, tv_divisor($1))",
     "tv_remainder($0, tv_divisor($1))"},
    {"rremainder", 2, "tv_remainder($1, $0)", "tv_remainder($1, tv_divisor($0))",
     "tv_remainder($1, tv_divisor($0))"},
    {"gcd", 2, nullptr, "tv_gcd($0, $1)", "tv_gcd($0, $1)", nullptr},
    {"lcm", 2, nullptr, "tv_lcm($0, $1)", "tv_lcm($0, $1)", nullptr},
    {"maximum", 2, "tv_max($0, $1)", "max($0, $1)", "max($0, $1)", "$0 || $1"},
    {"minimum", 2, "tv_min($0, $1)", "min($0, $1)", "min($0, $1)", "$0 && $1"},
    // The bound first: of two zeros the second is taken, which is the element where bounds are
    // numbers.
    {"rmaximum", 2, "tv_at_least($0, $1)", "max($0, $1)", "max($0, $1)", "$0 || $1"},
    {"rminimum", 2, "tv_at_most($0, $1)", "min($0, $1)", "min($0, $1)", "$0 && $1"},
    {"lerp", 3, "tv_lerp($0, $1, $2)", nullptr, nullptr, nullptr, 0, false, "2 of the ends"},
    // self + value * t1 * t2 and self + value * t1 / t2; fourth operand: value.
    {"addcmul", 4, "$0 + $3 * $1 * $2", "$0 + $3 * $1 * $2", "$0 + $3 * $1 * $2", nullptr, 0, false,
     "2 of the terms"},
    {"addcdiv", 4, "$0 + $3 * tv_div($1, $2)", nullptr, nullptr, nullptr, 0, false,
     "2 of the terms"},

    // Comparisons, in the compute dtype.
    commutes({"eq", 2, "$0 == $1", "$0 == $1", "$0 == $1", "$0 == $1", 0, true}),
    commutes({"ne", 2, "$0 != $1", "$0 != $1", "$0 != $1", "$0 != $1", 0, true}),
    {"lt", 2, "$0 < $1", "$0 < $1", "$0 < $1", "!$0 && $1", 0, true},
    {"le", 2, "$0 <= $1", "$0 <= $1", "$0 <= $1", "!$0 || $1", 0, true},
    {"gt", 2, "$0 > $1", "$0 > $1", "$0 > $1", "$0 && !$1", 0, true},
    {"ge", 2, "$0 >= $1", "$0 >= $1", "$0 >= $1", "$0 || !$1", 0, true},

    // Logic on truth values, bits.
    commutes({"logical_and", 2, nullptr, nullptr, nullptr, "$0 && $1", 0, true}),
    commutes({"logical_or", 2, nullptr, nullptr, nullptr, "$0 || $1", 0, true}),
    commutes({"logical_xor", 2, nullptr, nullptr, nullptr, "$0 != $1", 0, true}),
    commutes({"bitwise_and", 2, nullptr, "$0 & $1", "$0 & $1", "$0 && $1"}),
    commutes({"bitwise_or", 2, nullptr, "$0 | $1", "$0 | $1", "$0 || $1"}),
    commutes({"bitwise_xor", 2, nullptr, "$0 ^ $1", "$0 ^ $1", "$0 != $1"}),

    {"shift_left", 3, nullptr, "tv_shl($0, $1, $2)", "tv_shl($0, $1)", nullptr},
    {"shift_right", 3, nullptr, "tv_shr($0, $1, $2)", "tv_shr($0, $1)", nullptr},
    // The scalar shifted: $1 << $0.
    {"rshift_left", 3, nullptr, "tv_shl($1, $0, $2)", "tv_shl($1, $0)", nullptr},
    {"rshift_right", 3, nullptr, "tv_shr($1, $0, $2)", "tv_shr($1, $0)", nullptr},

    // Selection by a bool; where_r has the scalar first, masked_fill(self, mask, value).
    {"where_r", 3, "$0 ? $2 : $1", "$0 ? $2 : $1", "$0 ? $2 : $1", "$0 ? $2 : $1", 1},
    {"masked_fill", 3, "$1 ? $2 : $0", "$1 ? $2 : $0", "$1 ? $2 : $0", "$1 ? $2 : $0", 2},
    {"mask_scale", 3, "$0 * ($1 * $2)", nullptr, nullptr, nullptr, 0, false, "0.5"},
    {"clamp", 3, "tv_at_most(tv_at_least($0, $1), $2)", "min(max($0, $1), $2)",
     "min(max($0, $1), $2)", nullptr},
    {"clamp_tensor", 3, "tv_min(tv_max($0, $1), $2)", "min(max($0, $1), $2)",
     "min(max($0, $1), $2)", nullptr},
    {"fmax", 2, "tv_isnan($1) || $0 >= $1 ? $0 : $1", "max($0, $1)", "max($0, $1)", "$0 || $1"},
    {"fmin", 2, "tv_isnan($1) || $0 <= $1 ? $0 : $1", "min($0, $1)", "min($0, $1)", "$0 && $1"},
    {"copysign", 2, "tv_copysign($0, $1)", nullptr, nullptr, nullptr},
    {"heaviside", 2, "$0 == 0.0 ? $1 : float($0 > 0.0)", "$0 == 0 ? $1 : int($0 > 0)",
     "$0 == 0L ? $1 : int64_t($0 > 0L)", "$0 || $1"},
    {"nan_to_num", 4, "tv_isnan($0) ? $1 : tv_isinf($0) ? ($0 > 0.0 ? $2 : $3) : $0", "$0", "$0",
     "$0"},

    // Rounding. round_decimals: 10^|decimals|, 1 if decimals < 0.
    {"round_decimals", 3, "tv_round_decimals($0, $1, $2 != 0.0)", "$0", "$0", nullptr, 0, false,
     "1"},

    // Elementary functions.
    {"atan2", 2, "tv_atan2($0, $1)", nullptr, nullptr, nullptr, 0, false, "3"},
    {"pow", 2, "tv_pow($0, $1)", "tv_pow($0, $1)", "tv_pow($0, $1)", nullptr, 0, false, "2"},
    {"rpow", 2, "tv_pow($1, $0)", "tv_pow($1, $0)", "tv_pow($1, $0)", nullptr, 0, false, "2"},
    {"cube", 1, "$0 * $0 * $0", "$0 * $0 * $0", "$0 * $0 * $0", nullptr, 0, false, "2"},
    {"inverse_square", 1, "tv_div(tv_div(1.0, $0), $0)", nullptr, nullptr, nullptr, 0, false, "3"},
    {"hypot", 2, "tv_hypot($0, $1)", nullptr, nullptr, nullptr, 0, false, "4"},
    {"logaddexp", 2, "tv_logaddexp($0, $1)", nullptr, nullptr, nullptr, 0, false, "4 of 1"},
    {"xlogy", 2, "tv_xlogy($0, $1)", nullptr, nullptr, nullptr, 0, false, "2"},
    {"rxlogy", 2, "tv_xlogy($1, $0)", nullptr, nullptr, nullptr, 0, false, "2"},
    {"logit", 1, "tv_logit($0)", nullptr, nullptr, nullptr, 0, false, "3 of 1"},
    {"logit_eps", 2, "tv_logit(tv_min(tv_max($0, $1), 1.0 - $1))", nullptr, nullptr, nullptr, 0,
     false, "3 of 1"},

    // Special functions; polynomials take their degree second, with an r in front of the name
    // first.
    {"lgamma", 1, "tv_lgamma($0)", nullptr, nullptr, nullptr, 0, false, "4 of 1"},
    {"digamma", 1, "tv_digamma($0)", nullptr, nullptr, nullptr, 0, false, "12 of 1"},
    {"trigamma", 1, "tv_trigamma($0)", nullptr, nullptr, nullptr, 0, false, "12"},
    {"igamma", 2, "tv_igamma($0, $1)", nullptr, nullptr, nullptr, 0, false, "8 of 1"},
    {"igammac", 2, "tv_igammac($0, $1)", nullptr, nullptr, nullptr, 0, false, "8 of 1"},
    {"polygamma", 3, "$2 * tv_zeta($1, $0)", nullptr, nullptr, nullptr, 0, false, "12"},
    {"zeta", 2, "tv_zeta($0, $1)", nullptr, nullptr, nullptr, 0, false, "12"},
    {"rzeta", 2, "tv_zeta($1, $0)", nullptr, nullptr, nullptr, 0, false, "12"},
    {"erfcx", 1, "tv_erfcx($0)", nullptr, nullptr, nullptr, 0, false, "10"},
    {"ndtri", 1, "tv_ndtri($0)", nullptr, nullptr, nullptr, 0, false, "8 of 1"},
    {"i0", 1, "tv_i0($0)", nullptr, nullptr, nullptr, 0, false, "14"},
    {"i0e", 1, "tv_i0e($0)", nullptr, nullptr, nullptr, 0, false, "14"},
    {"i1", 1, "tv_i1($0)", nullptr, nullptr, nullptr, 0, false, "14"},
    {"i1e", 1, "tv_i1e($0)", nullptr, nullptr, nullptr, 0, false, "14"},
    {"k0", 1, "tv_modified_k0($0, false)", nullptr, nullptr, nullptr, 0, false, "24"},
    {"k1", 1, "tv_modified_k1($0, false)", nullptr, nullptr, nullptr, 0, false, "16"},
    {"k0e", 1, "tv_modified_k0($0, true)", nullptr, nullptr, nullptr, 0, false, "24"},
    {"k1e", 1, "tv_modified_k1($0, true)", nullptr, nullptr, nullptr, 0, false, "16"},
    {"bessel_j0", 1, "tv_j0($0)", nullptr, nullptr, nullptr, 0, false, "24 of the amplitude"},
    {"bessel_j1", 1, "tv_j1($0)", nullptr, nullptr, nullptr, 0, false, "32 of the amplitude"},
    {"bessel_y0", 1, "tv_y0($0)", nullptr, nullptr, nullptr, 0, false, "24 of the amplitude"},
    {"bessel_y1", 1, "tv_y1($0)", nullptr, nullptr, nullptr, 0, false, "48 of the amplitude"},
    {"spherical_bessel_j0", 1, "tv_spherical_j0($0)", nullptr, nullptr, nullptr, 0, false, "4"},
    {"airy_ai", 1, "tv_airy_ai($0)", nullptr, nullptr, nullptr, 0, false,
     "32 of the amplitude, times |x|^1.5"},
    {"chebyshev_polynomial_t", 2, "tv_chebyshev_t($0, $1)", nullptr, nullptr, nullptr, 0, false,
     "16 of the terms"},
    {"shifted_chebyshev_polynomial_t", 2, "tv_chebyshev_t($0 + $0 - 1.0, $1)", nullptr, nullptr,
     nullptr, 0, false, "16 of the terms"},
    {"rchebyshev_polynomial_t", 2, "tv_chebyshev_t($1, $0)", nullptr, nullptr, nullptr, 0, false,
     "16 of the terms"},
    {"rshifted_chebyshev_polynomial_t", 2, "tv_chebyshev_t($1 + $1 - 1.0, $0)", nullptr, nullptr,
     nullptr, 0, false, "16 of the terms"},
    {"chebyshev_polynomial_u", 2, "tv_chebyshev_u($0, $1)", nullptr, nullptr, nullptr, 0, false,
     "16 of the terms"},
    {"shifted_chebyshev_polynomial_u", 2, "tv_chebyshev_u($0 + $0 - 1.0, $1)", nullptr, nullptr,
     nullptr, 0, false, "16 of the terms"},
    {"rchebyshev_polynomial_u", 2, "tv_chebyshev_u($1, $0)", nullptr, nullptr, nullptr, 0, false,
     "16 of the terms"},
    {"rshifted_chebyshev_polynomial_u", 2, "tv_chebyshev_u($1 + $1 - 1.0, $0)", nullptr, nullptr,
     nullptr, 0, false, "16 of the terms"},
    {"chebyshev_polynomial_v", 2, "tv_chebyshev_v($0, $1)", nullptr, nullptr, nullptr, 0, false,
     "16 of the terms"},
    {"shifted_chebyshev_polynomial_v", 2, "tv_chebyshev_v($0 + $0 - 1.0, $1)", nullptr, nullptr,
     nullptr, 0, false, "16 of the terms"},
    {"rchebyshev_polynomial_v", 2, "tv_chebyshev_v($1, $0)", nullptr, nullptr, nullptr, 0, false,
     "16 of the terms"},
    {"rshifted_chebyshev_polynomial_v", 2, "tv_chebyshev_v($1 + $1 - 1.0, $0)", nullptr, nullptr,
     nullptr, 0, false, "16 of the terms"},
    {"chebyshev_polynomial_w", 2, "tv_chebyshev_w($0, $1)", nullptr, nullptr, nullptr, 0, false,
     "16 of the terms"},
    {"shifted_chebyshev_polynomial_w", 2, "tv_chebyshev_w($0 + $0 - 1.0, $1)", nullptr, nullptr,
     nullptr, 0, false, "16 of the terms"},
    {"rchebyshev_polynomial_w", 2, "tv_chebyshev_w($1, $0)", nullptr, nullptr, nullptr, 0, false,
     "16 of the terms"},
    {"rshifted_chebyshev_polynomial_w", 2, "tv_chebyshev_w($1 + $1 - 1.0, $0)", nullptr, nullptr,
     nullptr, 0, false, "16 of the terms"},
    {"hermite_polynomial_h", 2, "tv_hermite($0, $1, 2.0)", nullptr, nullptr, nullptr, 0, false,
     "16 of the terms"},
    {"hermite_polynomial_he", 2, "tv_hermite($0, $1, 1.0)", nullptr, nullptr, nullptr, 0, false,
     "16 of the terms"},
    {"laguerre_polynomial_l", 2, "tv_laguerre($0, $1)", nullptr, nullptr, nullptr, 0, false,
     "16 of the terms"},
    {"legendre_polynomial_p", 2, "tv_legendre($0, $1)", nullptr, nullptr, nullptr, 0, false,
     "16 of the terms"},
    {"rhermite_polynomial_h", 2, "tv_hermite($1, $0, 2.0)", nullptr, nullptr, nullptr, 0, false,
     "16 of the terms"},
    {"rhermite_polynomial_he", 2, "tv_hermite($1, $0, 1.0)", nullptr, nullptr, nullptr, 0, false,
     "16 of the terms"},
    {"rlaguerre_polynomial_l", 2, "tv_laguerre($1, $0)", nullptr, nullptr, nullptr, 0, false,
     "16 of the terms"},
    {"rlegendre_polynomial_p", 2, "tv_legendre($1, $0)", nullptr, nullptr, nullptr, 0, false,
     "16 of the terms"},

    // The parts of a float.
    {"angle", 1, "tv_isnan($0) ? $0 : floatBitsToUint($0) > 0x80000000u ? 3.14159274 : 0.0",
     nullptr, nullptr, nullptr},
    {"ldexp", 2, "$0 * tv_power_of_two($1)", nullptr, nullptr, nullptr, 0, false, "0.5"},
    {"nextafter", 2, "tv_nextafter($0, $1)", nullptr, nullptr, nullptr},
    {"frexp_mantissa", 1, "tv_frexp_mantissa($0)", nullptr, nullptr, nullptr},
    {"frexp_exponent", 1, "tv_frexp_exponent($0)", nullptr, nullptr, nullptr},

    // Small floating-point numbers, of their codes, and their codes.
    {"from_float8_e4m3fn", 1, "tv_from_float8_e4m3fn(uint($0))", nullptr, nullptr, nullptr},
    {"from_float8_e4m3fnuz", 1, "tv_from_float8_e4m3fnuz(uint($0))", nullptr, nullptr, nullptr},
    {"from_float8_e5m2", 1, "tv_from_float8_e5m2(uint($0))", nullptr, nullptr, nullptr},
    {"from_float8_e5m2fnuz", 1, "tv_from_float8_e5m2fnuz(uint($0))", nullptr, nullptr, nullptr},
    {"from_float8_e8m0fnu", 1, "tv_from_float8_e8m0fnu(uint($0))", nullptr, nullptr, nullptr},
    {"from_float4_e2m1fn", 1, "tv_from_float4_e2m1fn(uint($0))", nullptr, nullptr, nullptr},
    {"to_float8_e4m3fn", 1, "tv_to_float8_e4m3fn($0)", nullptr, nullptr, nullptr},
    {"to_float8_e4m3fnuz", 1, "tv_to_float8_e4m3fnuz($0)", nullptr, nullptr, nullptr},
    {"to_float8_e5m2", 1, "tv_to_float8_e5m2($0)", nullptr, nullptr, nullptr},
    {"to_float8_e5m2fnuz", 1, "tv_to_float8_e5m2fnuz($0)", nullptr, nullptr, nullptr},

    // Fake quantisation, with eager's bits: scale, zero point, first and last step; and whether the
    // step is one of them.
    {"fake_quantize", 5, "tv_fake_quantize($0, $1, $2, $3, $4)", nullptr, nullptr, nullptr},
    {"fake_quantize_mask", 5, "tv_in_grid($0, $1, $2, $3, $4)", nullptr, nullptr, nullptr, 0, true},

    // linspace: start, end, step, number of steps.
    {"linspace", 5, "$0 < 0.5 * $4 ? $1 + $3 * $0 : $2 - $3 * ($4 - 1.0 - $0)", nullptr, nullptr,
     nullptr, 0, false, "2 of the larger end"},

    // Activations.
    {"relu", 1, "tv_relu($0)", "max($0, 0)", "max($0, int64_t(0))", nullptr},
    {"log_sigmoid_buffer", 1, "tv_exp(-abs($0))", nullptr, nullptr, nullptr, 0, false, "1.5"},
    {"silu", 1, "tv_silu($0)", nullptr, nullptr, nullptr, 0, false, "6 of 2^-100"},
    {"gelu", 1, "tv_gelu($0)", nullptr, nullptr, nullptr, 0, false, "4 of x"},
    {"gelu_tanh", 1, "tv_gelu_tanh($0)", nullptr, nullptr, nullptr, 0, false, "4 of x"},
    {"hardswish", 1, "$0 * tv_min(tv_max($0 + 3.0, 0.0), 6.0) / 6.0", nullptr, nullptr, nullptr, 0,
     false, "4"},
    {"hardsigmoid", 1, "tv_min(tv_max($0 + 3.0, 0.0), 6.0) / 6.0", nullptr, nullptr, nullptr, 0,
     false, "4"},
    {"mish", 1, "$0 * tv_tanh(tv_softplus($0))", nullptr, nullptr, nullptr, 0, false,
     "16 of 2^-100"},
    // elu: alpha, scale, input_scale.
    {"elu", 4, "$0 > 0.0 ? $0 * $2 : tv_expm1($0 * $3) * ($1 * $2)", nullptr, nullptr, nullptr, 0,
     false, "4"},
    {"celu", 2, "tv_celu($0, $1)", nullptr, nullptr, nullptr, 0, false, "4"},
    {"leaky_relu", 2, "$0 > 0.0 ? $0 : $0 * $1", nullptr, nullptr, nullptr, 0, false, "0.5"},
    {"softplus", 3, "$0 * $1 > $2 ? $0 : tv_log1p(tv_exp($0 * $1)) / $1", nullptr, nullptr, nullptr,
     0, false, "6"},
    {"threshold", 3, "$0 <= $1 && !tv_isnan($0) ? $2 : $0", "$0 <= $1 ? $2 : $0",
     "$0 <= $1 ? $2 : $0", nullptr},
    {"softshrink", 2, "tv_softshrink($0, $1)", nullptr, nullptr, nullptr},
    {"hardshrink", 2, "$0 >= -$1 && $0 <= $1 ? 0.0 : $0", nullptr, nullptr, nullptr},

    // Gradients; operands in the order of the aten operator.
    {"threshold_backward", 3, "$1 <= $2 ? 0.0 : $0", "$1 <= $2 ? 0 : $0",
     "$1 <= $2 ? int64_t(0) : $0", nullptr},
    {"sigmoid_backward", 2, "$0 * (1.0 - $1) * $1", nullptr, nullptr, nullptr, 0, false, "3"},
    {"tanh_backward", 2, "$0 * (1.0 - $1 * $1)", nullptr, nullptr, nullptr, 0, false,
     "2 of the gradient"},
    {"silu_backward", 2, "$0 * tv_silu_grad($1)", nullptr, nullptr, nullptr, 0, false,
     "32 of the gradient"},
    {"mish_backward", 2, "$0 * tv_mish_grad($1)", nullptr, nullptr, nullptr, 0, false,
     "32 of the gradient"},
    {"gelu_backward", 2, "$0 * tv_gelu_grad($1)", nullptr, nullptr, nullptr, 0, false,
     "8 of the gradient"},
    {"gelu_tanh_backward", 2, "$0 * tv_gelu_tanh_grad($1)", nullptr, nullptr, nullptr, 0, false,
     "32 of the gradient"},
    {"hardswish_backward", 2, "$1 <= -3.0 ? 0.0 : $1 < 3.0 ? $0 * ($1 / 3.0 + 0.5) : $0", nullptr,
     nullptr, nullptr, 0, false, "3 of the gradient"},
    {"hardsigmoid_backward", 2, "$1 > -3.0 && $1 < 3.0 ? $0 / 6.0 : 0.0", nullptr, nullptr, nullptr,
     0, false, "4"},
    {"hardtanh_backward", 4, "$1 <= $2 || $1 >= $3 ? 0.0 : $0", nullptr, nullptr, nullptr},
    {"leaky_relu_backward", 3, "$1 > 0.0 ? $0 : $0 * $2", nullptr, nullptr, nullptr, 0, false,
     "0.5"},
    // elu: alpha, scale, input_scale; the second form is given elu's result.
    {"elu_backward", 5, "$1 <= 0.0 ? $0 * $4 * ($2 * $3) * tv_exp($1 * $4) : $0 * $3", nullptr,
     nullptr, nullptr, 0, false, "4"},
    {"elu_backward_result", 5, "$1 <= 0.0 ? $0 * $4 * ($1 + $2 * $3) : $0 * $3", nullptr, nullptr,
     nullptr, 0, false, "4"},
    {"softplus_backward", 4, "$1 * $2 > $3 ? $0 : $0 * tv_sigmoid($1 * $2)", nullptr, nullptr,
     nullptr, 0, false, "6"},
    {"log_sigmoid_backward", 2, "$0 * tv_sigmoid(-$1)", nullptr, nullptr, nullptr, 0, false, "6"},
    {"softshrink_backward", 3, "$1 >= -$2 && $1 <= $2 ? 0.0 : $0", nullptr, nullptr, nullptr},
    {"prelu", 2, "$0 > 0.0 ? $0 : $1 * $0", nullptr, nullptr, nullptr, 0, false, "0.5"},
    {"prelu_backward", 3, "$1 > 0.0 ? $0 : $2 * $0", nullptr, nullptr, nullptr, 0, false, "0.5"},
    {"prelu_backward_weight", 2, "$1 > 0.0 ? 0.0 : $1 * $0", nullptr, nullptr, nullptr, 0, false,
     "0.5"},
};

}  // namespace

namespace {

/// What came with operators, while converters register themselves: those of users' libraries while
/// other threads compile (csrc/user_code.h). Entries never move.
struct Added {
  std::shared_mutex mutex;
  std::map<std::string, PointwiseRow, std::less<>> rows;
  std::map<std::string, std::string> functions;  // operator → row
};

Added& added() {
  static Added all;
  return all;
}

const PointwiseRow* find_own(std::string_view name) {
  const auto it = std::find_if(std::begin(kRows), std::end(kRows),
                               [&](const PointwiseRow& row) { return row.name == name; });
  return it == std::end(kRows) ? nullptr : it;
}

}  // namespace

void add_pointwise(const std::string& name, PointwiseRow row) {
  const std::unique_lock lock(added().mutex);
  if (find_own(name) != nullptr || added().rows.contains(name)) {
    if (keep_load_error("[pointwise] there is a row called " + name + " already")) return;
    throw Error(ErrorKind::kInternal, "[pointwise] two rows are called " + name);
  }
  const auto it = added().rows.emplace(name, row).first;
  it->second.name = it->first.c_str();
}

const PointwiseRow* find_pointwise(std::string_view name) {
  if (const PointwiseRow* own = find_own(name)) return own;
  const std::shared_lock lock(added().mutex);
  const auto it = added().rows.find(name);
  return it == added().rows.end() ? nullptr : &it->second;
}

std::vector<PointwiseRow> pointwise_rows() {
  std::vector<PointwiseRow> rows(std::begin(kRows), std::end(kRows));
  const std::shared_lock lock(added().mutex);
  for (const auto& [name, row] : added().rows) rows.push_back(row);
  return rows;
}

void tell_pointwise_function(std::string op, std::string function) {
  const std::unique_lock lock(added().mutex);
  added().functions[std::move(op)] = std::move(function);
}

std::string pointwise_function(const std::string& op) {
  const std::shared_lock lock(added().mutex);
  const auto it = added().functions.find(op);
  return it == added().functions.end() ? "" : it->second;
}

int32_t divisor_of(const PointwiseInstr& instr) {
  const PointwiseRow* row = find_pointwise(instr.function);
  if (row == nullptr || row->on_int == nullptr || !is_integer(instr.compute)) return -1;
  const std::string_view text = row->on_int, call = "tv_divisor($";
  const size_t at = text.find(call);
  return at == text.npos ? -1 : text[at + call.size()] - '0';
}

bool may_divide_by_zero(const PointwiseProgram& program) {
  return std::ranges::any_of(program.instrs, [](const PointwiseInstr& instr) {
    const int32_t divisor = divisor_of(instr);
    return divisor >= 0 && divisor < static_cast<int32_t>(instr.operands.size());
  });
}

int64_t pointwise_iterations(const PointwiseProgram& program) {
  // Functions of arith.glsl and special.glsl with loops: 8 bits of a quotient, one bit of an
  // exponent, one step of Euclid's an iteration.
  const auto calls = [](const char* text, const char* function) {
    return text != nullptr && std::string_view(text).find(function) != std::string_view::npos;
  };
  int64_t total = 0;
  for (const PointwiseInstr& instr : program.instrs) {
    const PointwiseRow* row = find_pointwise(instr.function);
    if (row == nullptr) continue;
    if (is_float(instr.compute)) total += row->iterations;
    for (const char* function : {"tv_fmod(", "tv_remainder(", "tv_div_floor("}) {
      if (calls(row->on_float, function) && is_float(instr.compute)) total += 34;
    }
    for (const char* function : {"tv_gcd(", "tv_lcm("}) {
      if (calls(row->on_int, function)) total += instr.compute == DType::kI64 ? 93 : 48;
    }
    if (calls(row->on_int, "tv_pow(") && !is_float(instr.compute)) total += 64;
    for (const char* function : {"tv_zeta(", "tv_trigamma(", "tv_digamma("}) {
      if (calls(row->on_float, function) && is_float(instr.compute)) total += 30;
    }
    if (calls(row->on_float, "tv_igamma")) total += 250;
    if (calls(row->on_float, "tv_hermite(")) total += 128;
    for (const char* function : {"tv_chebyshev_", "tv_laguerre(", "tv_legendre("}) {
      if (calls(row->on_float, function)) total += 32000;
    }
  }
  return total;
}

}  // namespace tv
