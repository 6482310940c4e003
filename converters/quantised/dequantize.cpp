// tv::dequantize where no other operator reads the quantised tensor itself: as pointwise nodes.

#include "converters/quantised/dequantize.h"

#include "converters/kit/steps.h"
#include "csrc/graph/quantising.h"

namespace tv {
namespace {

Shape with_last(Shape shape, std::vector<Expr> last) {
  shape.pop_back();
  shape.insert(shape.end(), last.begin(), last.end());
  return shape;
}

/// Two elements of each byte, as uint8.
ValueId unpacked(Rewriter& rw, ValueId bytes) {
  const Shape shape = rw.graph().value(bytes).shape;
  const ValueId low =
      rw.add("aten::bitwise_and.Scalar",
             {tensor_arg("self", bytes), attr_arg("other", integer(15))}, DType::kU8, shape);
  const ValueId high =
      rw.add("aten::bitwise_right_shift.Tensor_Scalar",
             {tensor_arg("self", bytes), attr_arg("other", integer(4))}, DType::kU8, shape);
  const Shape column = with_last(shape, {shape.back(), Expr(1)});
  const auto last = static_cast<int64_t>(shape.size());
  const ValueId pairs =
      rw.add("aten::cat",
             {tensor_list_arg("tensors", {rw.reshape(low, column), rw.reshape(high, column)}),
              attr_arg("dim", integer(last))},
             DType::kU8, with_last(shape, {shape.back(), Expr(2)}));
  return rw.reshape(pairs, with_last(shape, {shape.back() * 2}));
}

/// A result of `shape` and what has one element a block of it, as tensors that broadcast.
struct Blocks {
  Shape elements, blocks;
};

Blocks blocks_of(const Shape& shape, const Shape& blocks) {
  Blocks out;
  for (size_t d = 0; d < shape.size(); ++d) {
    const bool whole = blocks[d] == Expr(1) || blocks[d] == shape[d];
    out.elements.push_back(whole ? shape[d] : blocks[d]);
    out.blocks.push_back(blocks[d]);
    if (whole) continue;
    out.elements.emplace_back(*shape[d].constant() / *blocks[d].constant());
    out.blocks.emplace_back(1);
  }
  return out;
}

void expand(const NodeContext& c, Rewriter& rw) {
  const Quantised q = quantised_of(c.node);
  const Shape shape = c.output().shape;
  ValueId input = q.bits == 4 ? unpacked(rw, q.input) : q.input;
  const ValueId of_blocks = q.scale != kNoValue ? q.scale : q.zero_point;
  Blocks split{shape, {}};
  if (of_blocks != kNoValue) split = blocks_of(shape, rw.graph().value(of_blocks).shape);
  input = rw.reshape(input, split.elements);
  // int32 alone has differences that float32 does not hold.
  const DType difference =
      rw.graph().value(q.input).dtype == DType::kI32 ? DType::kI32 : DType::kF32;
  // Numbers of the graph are a part of kernels; others are read.
  const auto zero = filled_with(rw.graph(), q.zero_point);
  const auto scale = filled_with(rw.graph(), q.scale);
  if (!q.has_integers()) {
    input = rw.pointwise("from_" + q.format, {input}, DType::kF32);
  } else if (zero && difference == DType::kF32) {
    input = rw.pointwise("sub", {input}, DType::kF32, {*zero});
  } else if (q.zero_point != kNoValue) {
    input = rw.pointwise("sub", {input, rw.reshape(q.zero_point, split.blocks)}, difference);
  } else if (q.bits == 4) {
    input = rw.pointwise("sub", {input}, DType::kF32, {8});
  }
  if (scale) {
    input = rw.pointwise("mul", {input}, DType::kF32, {*scale});
  } else if (q.scale != kNoValue) {
    input = rw.pointwise("mul", {input, rw.reshape(q.scale, split.blocks)}, DType::kF32);
  }
  rw.replace(0, rw.reshape(rw.cast(input, c.output().dtype), shape));
}

}  // namespace

ValueId dequantize_of(Rewriter& rw, const Quantised& q, DType dtype, const Shape& shape) {
  return rw.add("tv::dequantize", arguments_of(q), dtype, shape);
}

namespace {

std::string described(const Graph& graph, ValueId id) {
  return "'" + graph.value(id).name + "' is " + type_text(graph.value(id));
}

}  // namespace

std::string format_refusal(const Quantised& q) {
  for (const std::string& format : {q.format, q.scale_format}) {
    if (!format.empty() && !is_small_float(format)) return "no format '" + format + "' is known";
  }
  const bool fits = q.has_integers() || q.zero_point == kNoValue;
  return fits ? "" : "elements of " + q.format + " have no zero points";
}

std::string input_refusal(const Graph& graph, const Quantised& q, const Shape& shape) {
  const Value& input = graph.value(q.input);
  Shape held = shape;
  if (q.bits == 4 && !held.empty()) held.back() = floordiv(held.back(), 2);
  const bool even = q.bits != 4 || (!shape.empty() && mod(shape.back(), 2) == Expr(0));
  const bool codes = q.bits == 4 || !q.has_integers();
  const bool holds =
      (q.bits == 4 || q.bits == 8) && (codes ? input.dtype == DType::kU8 : is_integer(input.dtype));
  if (even && holds && input.shape == held) return "";
  return described(graph, q.input) + ", which does not hold " + std::to_string(q.bits) +
         "-bit elements of " + type_text({.dtype = input.dtype, .shape = shape});
}

std::string blocks_refusal(const Graph& graph, ValueId id, const Shape& blocks,
                           const Shape& shape) {
  if (id == kNoValue) return "";
  const Value& value = graph.value(id);
  bool fits = blocks.size() == shape.size() && product(blocks) == product(value.shape);
  for (size_t d = 0; fits && d < shape.size(); ++d) {
    const auto size = shape[d].constant(), count = blocks[d].constant();
    fits = blocks[d] == Expr(1) || blocks[d] == shape[d] ||
           (size && count && *count > 0 && *size % *count == 0);
  }
  if (fits) return "";
  return described(graph, id) + ", which is not one element for each block of a tensor of " +
         type_text({.dtype = value.dtype, .shape = shape});
}

namespace {

const RegisterConverter dequantize{
    {.op = "tv::dequantize",
     .unsupported =
         [](const NodeContext& c) {
           const Quantised q = quantised_of(c.node);
           std::string reason = format_refusal(q);
           if (reason.empty()) reason = input_refusal(c.graph, q, c.output().shape);
           for (const ValueId id : {q.scale, q.zero_point}) {
             if (!reason.empty() || id == kNoValue) continue;
             reason = blocks_refusal(c.graph, id, c.graph.value(id).shape, c.output().shape);
           }
           return reason;
         },
     .expand = expand,
     .keeps_float32 = true,
     .types = kDequantizedTypes,
     .schema = "tv::dequantize(Tensor input, Tensor? scale, Tensor? zero_point, int bits, "
               "str? format=None, str? scale_format=None) -> Tensor"}};

}  // namespace
}  // namespace tv
