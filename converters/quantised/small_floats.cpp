// torch_vulkan::dequantize_floats, which modules of tv.quantize call for weights of small
// floating-point numbers, as tv::dequantize; scales that are codes are a tv::dequantize of their
// own.

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

const RegisterConverter dequantize_floats{{.op = "torch_vulkan::dequantize_floats",
                                           .unsupported = unsupported,
                                           .expand = expand,
                                           .translates = true}};

}  // namespace
}  // namespace tv
