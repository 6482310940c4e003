#include "converters/kit/linspace.h"

namespace tv {

ValueId linspace_of(Rewriter& r, ValueId start, ValueId end, int64_t count) {
  const auto f32 = [&](const char* function, std::vector<ValueId> operands,
                       std::vector<double> scalars = {}) {
    return r.pointwise(function, std::move(operands), DType::kF32, std::move(scalars));
  };
  if (count <= 1) {
    return r.add("aten::expand", {tensor_arg("self", start), attr_arg("size", Shape{Expr(count)})},
                 DType::kF32, {Expr(count)});
  }
  const auto last = static_cast<double>(count - 1);
  const ValueId step = f32("div", {f32("sub", {end, start})}, {last});
  const ValueId index = r.add("tv::fill", {attr_arg("start", Expr(0)), attr_arg("step", Expr(1))},
                              DType::kF32, {Expr(count)});
  const ValueId from_start = f32("add", {start, f32("mul", {step, index})});
  const ValueId from_end = f32("sub", {end, f32("mul", {step, f32("rsub", {index}, {last})})});
  const ValueId is_near =
      r.pointwise("lt", {index}, DType::kBool, {0.5 * static_cast<double>(count)});
  return f32("where", {is_near, from_start, from_end});
}

ValueId float_number(Rewriter& r, double value) {
  return r.add("aten::full",
               {attr_arg("size", std::vector<Expr>{}), attr_arg("fill_value", value),
                attr_arg("dtype", DType::kF32)},
               DType::kF32, {});
}

}  // namespace tv
