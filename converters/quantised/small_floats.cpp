// Small floating-point numbers, held as their codes. torch_vulkan::dequantize_floats, which modules
// of tv.quantize call, and decode_floats as tv::dequantize; scales that are codes are a
// tv::dequantize of their own. tv::to_small_float, a cast to codes.

#include "converters/kit/steps.h"
#include "converters/quantised/dequantize.h"

namespace tv {
namespace {

/// Of the elements; the scale is that of the node.
Quantised elements_of(const Node& node) {
  const std::string format = node.text("format");
  return {.input = node.input("input"),
          .scale = node.input("scale"),
          .bits = format == "float4_e2m1fn" ? 4 : 8,
          .format = format,
          .scale_format = node.text("scale_format")};
}

std::string unsupported(const NodeContext& c) {
  const Quantised q = elements_of(c.node);
  const Shape& whole = c.output().shape;
  std::string reason = format_refusal(q);
  if (reason.empty() && q.format.empty()) reason = "no format is given";
  if (reason.empty()) reason = input_refusal(c.graph, q, whole);
  if (reason.empty()) reason = blocks_refusal(c.graph, q.scale, c.shape("scale"), whole);
  const bool codes = !q.scale_format.empty();
  if (reason.empty() && codes != (c.dtype("scale") == DType::kU8)) {
    reason = "the scale is of " + std::string(name(c.dtype("scale"))) +
             (codes ? ", want codes of " + q.scale_format : "");
  }
  if (reason.empty() && c.node.has("tensor_scale")) {
    const bool one = product(c.shape("tensor_scale")) == Expr(1);
    if (!one || !codes) reason = "tensor_scale is one float beside scales that are codes";
  }
  return reason.empty() ? "" : "[" + c.node.op + "] " + reason;
}

void expand(const NodeContext& c, Rewriter& rw) {
  Quantised q = elements_of(c.node);
  if (!q.scale_format.empty()) {
    const Shape blocks = c.shape("scale");
    Quantised scale{.input = q.scale, .format = q.scale_format};
    if (c.node.has("tensor_scale")) {
      scale.scale = rw.cast(rw.reshape(c.node.input("tensor_scale"), Shape(blocks.size(), Expr(1))),
                            DType::kF32);
    }
    q.scale = dequantize_of(rw, scale, DType::kF32, blocks);
    q.scale_format.clear();
  }
  rw.replace(0, dequantize_of(rw, q, c.output().dtype, c.output().shape));
}

Quantised codes_of(const Node& node) {
  const std::string format = node.text("format");
  return {
      .input = node.input("input"), .bits = format == "float4_e2m1fn" ? 4 : 8, .format = format};
}

const RegisterConverter decode_floats{
    {.op = "torch_vulkan::decode_floats",
     .unsupported =
         [](const NodeContext& c) {
           const Quantised q = codes_of(c.node);
           std::string reason = format_refusal(q);
           if (reason.empty()) reason = input_refusal(c.graph, q, c.output().shape);
           return reason.empty() ? "" : "[" + c.node.op + "] " + reason;
         },
     .expand =
         [](const NodeContext& c, Rewriter& rw) {
           rw.replace(0, dequantize_of(rw, codes_of(c.node), c.output().dtype, c.output().shape));
         },
     .translates = true,
     .types = kDequantizedTypes}};

const RegisterConverter to_small_float{
    {.op = "tv::to_small_float",
     .unsupported = [](const NodeContext& c) -> std::string {
       const std::string format = c.node.text("format");
       if (largest_of(format) == 0) return "no casts to " + format + " are known";
       return floats_only(c, "self");
     },
     .expand =
         [](const NodeContext& c, Rewriter& rw) {
           const std::string format = c.node.text("format");
           const double most = largest_of(format);
           ValueId x = rw.cast(c.node.input("self"), DType::kF32);
           if (c.node.flag("saturate")) {
             x = rw.pointwise("clamp", {x}, DType::kF32, {-most, most});
           }
           const ValueId code = rw.pointwise("to_" + format, {x}, DType::kF32);
           rw.replace(0, rw.cast(rw.cast(code, DType::kI32), DType::kU8));
         },
     .keeps_float32 = true,
     .types = "self [*s] -> [*s]",
     .schema = "tv::to_small_float(Tensor self, str format, bool saturate=False) -> Tensor"}};

const RegisterConverter dequantize_floats{{.op = "torch_vulkan::dequantize_floats",
                                           .unsupported = unsupported,
                                           .expand = expand,
                                           .translates = true,
                                           .types = kDequantizedTypes}};

}  // namespace
}  // namespace tv
