// What PyTorch's libraries call quantising and dequantising, as tv::dequantize and pointwise nodes:
// quantized_decomposed (torch.ao, PT2E), torchao's affine operators, and torch_vulkan::dequantize,
// which tv.quantize's modules call.

#include <algorithm>

#include "converters/kit/steps.h"
#include "converters/quantised/dequantize.h"
#include "csrc/graph/quantising.h"

namespace tv {
namespace {

/// Shapes of scales: one element for each block of a tensor, of the tensor's rank.
using BlocksOf = std::function<Shape(const NodeContext&, const Shape& whole)>;

Shape one_block(const NodeContext&, const Shape& whole) { return Shape(whole.size(), Expr(1)); }

Shape channels(const NodeContext& c, const Shape& whole) {
  Shape blocks = one_block(c, whole);
  const auto axis =
      static_cast<size_t>(c.wrap(c.node.integer("axis"), static_cast<int64_t>(whole.size())));
  blocks[axis] = whole[axis];
  return blocks;
}

/// torch.ao takes groups longer than a row for the row.
Shape groups(const NodeContext& c, const Shape& whole) {
  Shape blocks = whole;
  const Expr size = c.node.expr("group_size"), scales = c.shape("scales").back();
  blocks.back() = scales == Expr(1) ? Expr(1) : floordiv(whole.back(), size);
  return blocks;
}

Shape tokens(const NodeContext&, const Shape& whole) {
  Shape blocks = whole;
  blocks.back() = 1;
  return blocks;
}

Shape block_sizes(const NodeContext& c, const Shape& whole) {
  Shape blocks = c.node.exprs("block_size");
  for (size_t d = 0; d < whole.size(); ++d) {
    blocks.at(d) = blocks[d] == whole[d] ? Expr(1) : floordiv(whole[d], blocks[d]);
  }
  return blocks;
}

/// scale or zero point of a node: a tensor of the shape that `blocks` gives, or a number.
ValueId of_blocks(const NodeContext& c, Rewriter& rw, const char* arg, const BlocksOf& blocks,
                  const Shape& whole) {
  if (!c.node.has(arg)) return kNoValue;
  const Shape shape = blocks(c, whole);
  if (c.node.arg(arg).is_tensor) return rw.reshape(c.node.input(arg), shape);
  const bool real = std::holds_alternative<double>(c.node.arg(arg).attr);
  return rw.add("aten::full",
                {attr_arg("size", shape), attr_arg("fill_value", c.node.arg(arg).attr),
                 attr_arg("dtype", real ? DType::kF32 : DType::kI32), attr_arg("layout", {}),
                 attr_arg("device", {}), attr_arg("pin_memory", {})},
                real ? DType::kF32 : DType::kI32, shape);
}

struct Form {
  std::string op;
  std::string scale = "scale", zero_point = "zero_point";
  BlocksOf blocks = one_block;
  bool rounds_last = false;  ///< quantises by round(x / scale + zero_point), else adds it rounded
};

std::string refusal(const NodeContext& c, const Form& form, const Shape& whole) {
  for (const std::string& arg : {form.scale, form.zero_point}) {
    if (!c.node.has(arg) || !c.node.arg(arg).is_tensor) continue;
    std::string reason = blocks_refusal(c.graph, c.node.input(arg), form.blocks(c, whole), whole);
    if (!reason.empty()) return "[" + c.node.op + "] " + reason;
  }
  return "";
}

int64_t bits_of(const Node& node) { return node.has("bits") ? node.integer("bits") : 8; }

Converter dequantizer(Form form) {
  const auto unsupported = [form](const NodeContext& c) {
    const std::string input = input_refusal(
        c.graph, {.input = c.node.input("input"), .bits = bits_of(c.node)}, c.output().shape);
    return input.empty() ? refusal(c, form, c.output().shape) : "[" + c.node.op + "] " + input;
  };
  const auto expand = [form](const NodeContext& c, Rewriter& rw) {
    const Shape whole = c.output().shape;
    Quantised q{.input = c.node.input("input"), .bits = bits_of(c.node)};
    q.scale = of_blocks(c, rw, form.scale.c_str(), form.blocks, whole);
    q.zero_point = of_blocks(c, rw, form.zero_point.c_str(), form.blocks, whole);
    rw.replace(0, dequantize_of(rw, q, c.output().dtype, whole));
  };
  return {.op = form.op, .unsupported = unsupported, .expand = expand, .translates = true};
}

/// By quant_min and quant_max, numbers or tensors of one element.
ValueId clamped(const NodeContext& c, Rewriter& rw, ValueId steps) {
  if (!c.node.arg("quant_min").is_tensor) {
    return rw.pointwise("clamp", {steps}, DType::kF32,
                        {c.node.number("quant_min"), c.node.number("quant_max")});
  }
  const Shape one(c.output().shape.size(), Expr(1));
  const auto bound = [&](const char* arg) {
    return rw.cast(rw.reshape(c.node.input(arg), one), DType::kF32);
  };
  steps = rw.pointwise("maximum", {steps, bound("quant_min")}, DType::kF32);
  return rw.pointwise("minimum", {steps, bound("quant_max")}, DType::kF32);
}

bool gives_bytes(DType dtype) { return dtype == DType::kI8 || dtype == DType::kU8; }

/// tv::quantize, where a node has one scale, and numbers for the range.
bool quantise_whole(const NodeContext& c, Rewriter& rw, const Form& form) {
  const Shape whole = c.output().shape;
  if (!gives_bytes(c.output().dtype) || !(product(form.blocks(c, whole)) == Expr(1))) return false;
  if (form.rounds_last || c.node.arg("quant_min").is_tensor) return false;
  Quantising q{.input = c.node.input("input"),
               .least = c.node.integer("quant_min"),
               .most = c.node.integer("quant_max")};
  if (c.node.arg(form.scale).is_tensor) {
    q.scale = of_blocks(c, rw, form.scale.c_str(), form.blocks, whole);
  } else {
    q.step = c.node.number(form.scale);
  }
  q.zero_point = of_blocks(c, rw, form.zero_point.c_str(), form.blocks, whole);
  rw.replace(0, rw.add("tv::quantize", quantising_args(q), c.output().dtype, whole));
  return true;
}

Converter quantizer(Form form) {
  const auto expand = [form](const NodeContext& c, Rewriter& rw) {
    if (quantise_whole(c, rw, form)) return;
    const Shape whole = c.output().shape;
    const ValueId x = c.node.input("input");
    ValueId steps = kNoValue;
    if (c.node.arg(form.scale).is_tensor) {
      const ValueId scale = of_blocks(c, rw, form.scale.c_str(), form.blocks, whole);
      steps =
          rw.pointwise("mul", {x, rw.pointwise("rdiv", {scale}, DType::kF32, {1.0})}, DType::kF32);
    } else {
      steps = rw.pointwise("mul", {x}, DType::kF32, {1.0 / c.node.number(form.scale)});
    }
    const auto round = [&] {
      steps = rw.add("aten::round", {tensor_arg("self", steps)}, DType::kF32, whole);
    };
    if (!form.rounds_last) round();
    const ValueId zero = of_blocks(c, rw, form.zero_point.c_str(), form.blocks, whole);
    if (zero != kNoValue) steps = rw.pointwise("add", {steps, zero}, DType::kF32);
    if (form.rounds_last) round();
    steps = clamped(c, rw, steps);
    rw.replace(0, rw.cast(rw.cast(steps, DType::kI32), c.output().dtype));
  };
  const auto unsupported = [form](const NodeContext& c) -> std::string {
    for (const char* arg : {"quant_min", "quant_max"}) {
      if (c.node.has(arg) && c.node.arg(arg).is_tensor) continue;
      const bool known = c.node.has(arg) && std::holds_alternative<Expr>(c.node.arg(arg).attr) &&
                         c.node.expr(arg).is_constant();
      if (!known) return "[" + c.node.op + "] " + arg + " must be a number";
    }
    if (!is_float(c.dtype("input"))) return "[" + c.node.op + "] the input is not of floats";
    return refusal(c, form, c.output().shape);
  };
  return {.op = form.op, .unsupported = unsupported, .expand = expand, .translates = true};
}

std::string named(const char* op) { return "quantized_decomposed::" + std::string(op); }

const Form kChannels{.scale = "scales", .zero_point = "zero_points", .blocks = channels};
const Form kGroups{
    .scale = "scales", .zero_point = "zero_points", .blocks = groups, .rounds_last = true};
const Form kTokens{
    .scale = "scales", .zero_point = "zero_points", .blocks = tokens, .rounds_last = true};
const Form kBlocks{.blocks = block_sizes};

Form for_op(std::string op, Form form = {}) {
  form.op = std::move(op);
  return form;
}

/// torch_vulkan::dequantize's scales say themselves what their blocks are.
Shape as_they_are(const NodeContext& c, const Shape&) { return c.shape("scale"); }

constexpr const char* kElements = "input [*s] -> [*s]";
constexpr const char* kOneScale = "input [*s], scale [*{0,1}], zero_point [*{0,1}] -> [*s]";
constexpr const char* kFourScalars =
    "input [*s], scale [*{0,1}], zero_point [*{0,1}], quant_min [*{0,1}], quant_max [*{0,1}] -> "
    "[*s]";

/// Scales and zero points by channel.
void of_channels(NodeTypes& t) {
  const Shape shape = t.shape("input");
  t.want(!shape.empty(), "a scalar has no channels");
  const int64_t axis = t.wrap(t.integer("axis", 0), static_cast<int64_t>(shape.size()));
  for (const char* arg : {"scales", "zero_points"}) {
    if (t.has(arg)) t.equal(t.shape(arg), {shape[static_cast<size_t>(axis)]}, arg);
  }
}

const RegisterConverter translations{
    typed(dequantizer(for_op(named("dequantize_per_tensor"))), kElements),
    typed(dequantizer(for_op(named("dequantize_per_tensor.tensor"))), kOneScale),
    typed(dequantizer(for_op(named("dequantize_per_tensor.tensor2"))), kFourScalars),
    typed(dequantizer(for_op(named("dequantize_per_channel"), kChannels)),
          TypeRule(kElements) & of_channels),
    typed(dequantizer(for_op(named("dequantize_per_channel_group"), kGroups)), kElements),
    typed(dequantizer(for_op(named("dequantize_per_token"), kTokens)), kElements),
    typed(dequantizer(for_op("torchao::dequantize_affine", kBlocks)), kElements),
    typed(dequantizer(for_op("torch_vulkan::dequantize", {.blocks = as_they_are})),
          kDequantizedTypes),
    typed(quantizer(for_op(named("quantize_per_tensor"))), kElements),
    typed(quantizer(for_op(named("quantize_per_tensor.tensor"))), kOneScale),
    typed(quantizer(for_op(named("quantize_per_tensor.tensor2"))), kFourScalars),
    typed(quantizer(for_op(named("quantize_per_channel"), kChannels)),
          TypeRule(kElements) & of_channels),
    typed(quantizer(for_op(named("quantize_per_channel_group"), kGroups)), kElements),
    typed(quantizer(for_op(named("quantize_per_token"), kTokens)), kElements),
    typed(quantizer(for_op("torchao::quantize_affine", kBlocks)), kElements),
};

}  // namespace
}  // namespace tv
