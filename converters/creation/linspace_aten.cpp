// linspace between tensors, and logspace: a number to the powers of a linspace. In float32 from the
// nearer end, as torch does.

#include "converters/creation/creation_types.h"
#include "converters/kit/linspace.h"
#include "converters/kit/steps.h"

namespace tv {
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
  return linspace_of(r, bound("start", kind.start), bound("end", kind.end),
                     c.node.integer("steps"));
}

std::string unsupported(const NodeContext& c) {
  return is_float(c.output().dtype) ? "" : "[" + c.node.op + "] of integers stays native";
}

Converter linspace(const std::string& overload, Kind kind) {
  return {
      .op = "aten::linspace." + overload,
      .unsupported = unsupported,
      .expand = [kind](const NodeContext& c,
                       Rewriter& r) { r.replace(0, r.cast(line(c, r, kind), c.output().dtype)); },
      .types = types::line};
}

Converter logspace(const std::string& overload, Kind kind) {
  return {.op = "aten::logspace" + overload,
          .unsupported = unsupported,
          .expand =
              [kind](const NodeContext& c, Rewriter& r) {
                const ValueId power =
                    r.pointwise("rpow", {line(c, r, kind)}, DType::kF32, {c.node.number("base")});
                r.replace(0, r.cast(power, c.output().dtype));
              },
          .types = types::line};
}

const RegisterConverter lines{
    linspace("Tensor_Tensor", {true, true}),  linspace("Tensor_Scalar", {true, false}),
    linspace("Scalar_Tensor", {false, true}), logspace("", {}),
    logspace(".Tensor_Tensor", {true, true}), logspace(".Tensor_Scalar", {true, false}),
    logspace(".Scalar_Tensor", {false, true})};

}  // namespace
}  // namespace tv
