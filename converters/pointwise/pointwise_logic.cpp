// Comparisons, logic, bits, selection, casts.

#include <cmath>

#include "converters/kit/pointwise_rules.h"
#include "converters/kit/shape_types.h"

namespace tv {
namespace {

using Args = std::vector<std::string>;
const Args kTwo = {"self", "other"};

PointwiseRule two(const char* op, const char* function, Compute compute = Compute::kPromoted) {
  return {.op = op, .function = function, .args = kTwo, .compute = compute};
}

PointwiseRule cast(const char* op, const char* arg, Moves moves, TypeRule types = {}) {
  return {.op = op,
          .function = "cast",
          .args = {arg},
          .compute = Compute::kSelf,
          .moves = moves,
          .types = std::move(types)};
}

/// A None keeps torch's default: nan 0, infinities the largest finite values of the type.
std::string replacements(const NodeContext& c, PointwiseInstr& instr) {
  if (!is_float(instr.compute)) return "copy";
  const DType dtype = c.dtype("self");
  const double largest = dtype == DType::kF16    ? 65504.0
                         : dtype == DType::kBF16 ? std::ldexp(255.0, 120)
                                                 : std::ldexp(16777215.0, 104);
  const auto value = [&](const char* arg, double missing) {
    return c.node.has(arg) ? c.node.number(arg) : missing;
  };
  instr.scalars = {value("nan", 0), value("posinf", largest), value("neginf", -largest)};
  return "nan_to_num";
}

// clang-format off: rows of a table
const RegisterPointwise comparisons({
    two("aten::eq.Tensor", "eq"), two("aten::eq.Scalar", "eq"),
    two("aten::ne.Tensor", "ne"), two("aten::ne.Scalar", "ne"),
    two("aten::lt.Tensor", "lt"), two("aten::lt.Scalar", "lt"),
    two("aten::le.Tensor", "le"), two("aten::le.Scalar", "le"),
    two("aten::gt.Tensor", "gt"), two("aten::gt.Scalar", "gt"),
    two("aten::ge.Tensor", "ge"), two("aten::ge.Scalar", "ge"),
    two("aten::logical_and", "logical_and", Compute::kBool),
    two("aten::logical_or", "logical_or", Compute::kBool),
    two("aten::logical_xor", "logical_xor", Compute::kBool),
});

const RegisterPointwise bits({
    two("aten::bitwise_and.Tensor", "bitwise_and"), two("aten::bitwise_and.Scalar", "bitwise_and"),
    two("aten::bitwise_or.Tensor", "bitwise_or"), two("aten::bitwise_or.Scalar", "bitwise_or"),
    two("aten::bitwise_xor.Tensor", "bitwise_xor"), two("aten::bitwise_xor.Scalar", "bitwise_xor"),
    two("aten::__and__.Tensor", "bitwise_and"), two("aten::__and__.Scalar", "bitwise_and"),
    two("aten::__or__.Tensor", "bitwise_or"), two("aten::__or__.Scalar", "bitwise_or"),
    two("aten::__xor__.Tensor", "bitwise_xor"), two("aten::__xor__.Scalar", "bitwise_xor"),
    two("aten::bitwise_and.Scalar_Tensor", "bitwise_and"),
    two("aten::bitwise_or.Scalar_Tensor", "bitwise_or"),
    two("aten::bitwise_xor.Scalar_Tensor", "bitwise_xor"),
});
// clang-format on

const Args kWhere = {"condition", "self", "other"};
const Args kCondition = {"condition"};

const RegisterPointwise selection({
    {.op = "aten::where.self", .function = "where", .args = kWhere, .compute = Compute::kOutput},
    {.op = "aten::where.ScalarOther",
     .function = "where",
     .args = kWhere,
     .compute = Compute::kOutput},
    {.op = "aten::where.Scalar", .function = "where", .args = kWhere, .compute = Compute::kOutput},
    {.op = "aten::where.ScalarSelf",
     .function = "where_r",
     .args = {"condition", "other", "self"},
     .compute = Compute::kOutput},
    {.op = "aten::masked_fill.Scalar",
     .function = "masked_fill",
     .args = {"self", "mask", "value"},
     .compute = Compute::kOutput},
    {.op = "aten::masked_fill.Tensor",
     .function = "masked_fill",
     .args = {"self", "mask", "value"},
     .compute = Compute::kOutput,
     .number = "value"},
    {.op = "aten::nan_to_num", .args = {"self"}, .choose = replacements},
});

const RegisterPointwise casts({
    cast("aten::_to_copy", "self", Moves::kCasts, types::kSame),
    cast("prims::convert_element_type", "a", Moves::kCasts),
    cast("aten::copy", "src", Moves::kNothing, "self [*s], src ~[*s] -> [*s]"),
});

}  // namespace
}  // namespace tv
