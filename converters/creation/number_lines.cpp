// linspace between tensors, and logspace: a number to the powers of a linspace. In float32 from the
// nearer end, as torch does.

#include "converters/creation/number_lines.h"

#include "converters/kit/steps.h"

namespace tv {

ValueId line_between(Rewriter& r, ValueId start, ValueId end, int64_t count) {
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

namespace {

/// Which of start and end are tensors.
struct Kind {
  bool start = false, end = false;
};

ValueId line(const NodeContext& c, Rewriter& r, Kind kind) {
  const auto bound = [&](const char* arg, bool is_tensor) {
    if (!is_tensor) return float_number(r, c.node.number(arg));
    return r.reshape(r.cast(c.node.input(arg), DType::kF32), {});
  };
  return line_between(r, bound("start", kind.start), bound("end", kind.end),
                      c.node.integer("steps"));
}

std::string unsupported(const NodeContext& c) {
  return is_float(c.output().dtype) ? "" : "[" + c.node.op + "] of integers stays native";
}

Converter linspace(const std::string& overload, Kind kind) {
  return {.op = "aten::linspace." + overload,
          .unsupported = unsupported,
          .expand = [kind](const NodeContext& c, Rewriter& r) {
            r.replace(0, r.cast(line(c, r, kind), c.output().dtype));
          }};
}

Converter logspace(const std::string& overload, Kind kind) {
  return {.op = "aten::logspace" + overload,
          .unsupported = unsupported,
          .expand = [kind](const NodeContext& c, Rewriter& r) {
            const ValueId power =
                r.pointwise("rpow", {line(c, r, kind)}, DType::kF32, {c.node.number("base")});
            r.replace(0, r.cast(power, c.output().dtype));
          }};
}

const RegisterConverter lines{
    linspace("Tensor_Tensor", {true, true}),  linspace("Tensor_Scalar", {true, false}),
    linspace("Scalar_Tensor", {false, true}), logspace("", {}),
    logspace(".Tensor_Tensor", {true, true}), logspace(".Tensor_Scalar", {true, false}),
    logspace(".Scalar_Tensor", {false, true})};

}  // namespace
}  // namespace tv
