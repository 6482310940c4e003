#include "csrc/codegen/pointwise_table.h"

#include <algorithm>
#include <array>
#include <iterator>

namespace tv {

namespace {

// name, arity, float, int, int64, bool, bool operands, gives bool, error in ULP.
// math.glsl holds the tv_ functions; tests/cpp/test_math.cpp measures their errors.
constexpr PointwiseRow kRows[] = {
    // Copies and casts. `cast` alone rounds to a 16-bit result.
    {"copy", 1, "$0", "$0", "$0", "$0"},
    {"cast", 1, "$0", "$0", "$0", "$0"},
    {"where", 3, "$0 ? $1 : $2", "$0 ? $1 : $2", "$0 ? $1 : $2", "$0 ? $1 : $2", 1},

    // Arithmetic. Third operand of add_scaled, sub_scaled: alpha.
    {"add", 2, "$0 + $1", "$0 + $1", "$0 + $1", "$0 || $1", 0, false, "0.5"},
    {"sub", 2, "$0 - $1", "$0 - $1", "$0 - $1", nullptr, 0, false, "0.5"},
    {"rsub", 2, "$1 - $0", "$1 - $0", "$1 - $0", nullptr, 0, false, "0.5"},
    {"mul", 2, "$0 * $1", "$0 * $1", "$0 * $1", "$0 && $1", 0, false, "0.5"},
    {"add_scaled", 3, "$0 + $2 * $1", "$0 + $2 * $1", "$0 + $2 * $1", "$0 || ($2 && $1)", 0, false, "1"},
    {"sub_scaled", 3, "$0 - $2 * $1", "$0 - $2 * $1", "$0 - $2 * $1", nullptr, 0, false, "1"},
    {"rsub_scaled", 3, "$1 - $2 * $0", "$1 - $2 * $0", "$1 - $2 * $0", nullptr, 0, false, "1"},
    {"div", 2, "tv_div($0, $1)", nullptr, nullptr, nullptr, 0, false, "0.5"},
    {"rdiv", 2, "tv_div($1, $0)", nullptr, nullptr, nullptr, 0, false, "0.5"},
    {"div_floor", 2, "tv_div_floor($0, $1)", "tv_div_floor($0, $1)", "tv_div_floor($0, $1)"},
    {"div_trunc", 2, "trunc(tv_div($0, $1))", "tv_div_trunc($0, $1)", "tv_div_trunc($0, $1)"},
    {"fmod", 2, "tv_fmod($0, $1)", "tv_fmod($0, $1)", "tv_fmod($0, $1)"},
    {"remainder", 2, "tv_remainder($0, $1)", "tv_remainder($0, $1)", "tv_remainder($0, $1)"},
    {"rremainder", 2, "tv_remainder($1, $0)", "tv_remainder($1, $0)", "tv_remainder($1, $0)"},
    {"neg", 1, "-$0", "-$0", "-$0", nullptr},
    {"abs", 1, "abs($0)", "abs($0)", "abs($0)", "$0"},
    {"sign", 1, "tv_sign($0)", "sign($0)", "sign($0)", "$0"},
    {"reciprocal", 1, "tv_div(1.0, $0)", nullptr, nullptr, nullptr, 0, false, "0.5"},
    {"square", 1, "$0 * $0", "$0 * $0", "$0 * $0", "$0", 0, false, "0.5"},
    {"maximum", 2, "tv_max($0, $1)", "max($0, $1)", "max($0, $1)", "$0 || $1"},
    {"minimum", 2, "tv_min($0, $1)", "min($0, $1)", "min($0, $1)", "$0 && $1"},
    {"lerp", 3, "tv_lerp($0, $1, $2)", nullptr, nullptr, nullptr, 0, false, "2"},
    // self + value * t1 * t2 and self + value * t1 / t2; fourth operand: value.
    {"addcmul", 4, "$0 + $3 * $1 * $2", "$0 + $3 * $1 * $2", "$0 + $3 * $1 * $2", nullptr, 0, false, "2"},
    {"addcdiv", 4, "$0 + $3 * tv_div($1, $2)", nullptr, nullptr, nullptr, 0, false, "2"},

    // Comparisons, in the compute dtype.
    {"eq", 2, "$0 == $1", "$0 == $1", "$0 == $1", "$0 == $1", 0, true},
    {"ne", 2, "$0 != $1", "$0 != $1", "$0 != $1", "$0 != $1", 0, true},
    {"lt", 2, "$0 < $1", "$0 < $1", "$0 < $1", "!$0 && $1", 0, true},
    {"le", 2, "$0 <= $1", "$0 <= $1", "$0 <= $1", "!$0 || $1", 0, true},
    {"gt", 2, "$0 > $1", "$0 > $1", "$0 > $1", "$0 && !$1", 0, true},
    {"ge", 2, "$0 >= $1", "$0 >= $1", "$0 >= $1", "$0 || !$1", 0, true},
    {"isnan", 1, "tv_isnan($0)", "false", "false", "false", 0, true},
    {"isinf", 1, "tv_isinf($0)", "false", "false", "false", 0, true},
    {"isfinite", 1, "tv_isfinite($0)", "true", "true", "true", 0, true},
    {"signbit", 1, "floatBitsToInt($0) < 0", "$0 < 0", "$0 < 0", "false", 0, true},

    // Logic on truth values, bits.
    {"logical_not", 1, "$0 == 0.0", "$0 == 0", "$0 == 0", "!$0", 0, true},
    {"logical_and", 2, nullptr, nullptr, nullptr, "$0 && $1", 0, true},
    {"logical_or", 2, nullptr, nullptr, nullptr, "$0 || $1", 0, true},
    {"logical_xor", 2, nullptr, nullptr, nullptr, "$0 != $1", 0, true},
    {"bitwise_not", 1, nullptr, "~$0", "~$0", "!$0"},
    {"bitwise_and", 2, nullptr, "$0 & $1", "$0 & $1", "$0 && $1"},
    {"bitwise_or", 2, nullptr, "$0 | $1", "$0 | $1", "$0 || $1"},
    {"bitwise_xor", 2, nullptr, "$0 ^ $1", "$0 ^ $1", "$0 != $1"},

    // Rounding.
    {"floor", 1, "floor($0)", "$0", "$0", nullptr},
    {"ceil", 1, "ceil($0)", "$0", "$0", nullptr},
    {"trunc", 1, "trunc($0)", "$0", "$0", nullptr},
    {"round", 1, "roundEven($0)", "$0", "$0", nullptr},

    // Activations that need no transcendental.
    {"relu", 1, "tv_max($0, 0.0)", "max($0, 0)", "max($0, int64_t(0))", nullptr},
    {"clamp", 3, "tv_min(tv_max($0, $1), $2)", "min(max($0, $1), $2)", "min(max($0, $1), $2)", nullptr},
    {"sqrt", 1, "sqrt($0)", nullptr, nullptr, nullptr, 0, false, "1"},
    {"rsqrt", 1, "tv_div(1.0, sqrt($0))", nullptr, nullptr, nullptr, 0, false, "2"},
};

}  // namespace

const PointwiseRow* find_pointwise(std::string_view name) {
  const auto it = std::find_if(std::begin(kRows), std::end(kRows),
                               [&](const PointwiseRow& row) { return row.name == name; });
  return it == std::end(kRows) ? nullptr : it;
}

std::span<const PointwiseRow> pointwise_rows() { return kRows; }

}  // namespace tv
