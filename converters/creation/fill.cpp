// Tensors made of numbers: full, zeros, arange, eye, linspace and their kin.
//
// A constant value is a pointwise program without inputs, so it fuses into its readers; what
// depends on the element's index or on a symbol is tv::fill: out[i] = start + i · step.

#include <cmath>

#include "converters/creation/creation_types.h"
#include "converters/kit/pointwise_rules.h"
#include "converters/kit/shape_types.h"
#include "csrc/builder.h"
#include "csrc/rewriter.h"

namespace tv {
namespace {

/// An attribute as an expression where it is integral.
const Expr* integral(const NodeContext& c, const char* arg) {
  return c.node.has(arg) ? std::get_if<Expr>(&c.node.arg(arg).attr) : nullptr;
}

ValueId add_fill(Rewriter& r, Attr start, Attr step, DType dtype, const Shape& shape) {
  return r.add("tv::fill", {attr_arg("start", std::move(start)), attr_arg("step", std::move(step))},
               dtype, shape);
}

/// The rule of a constant, given by argument `value`; symbolic ones become tv::fill.
Converter constant(const char* op, const char* value) {
  Converter converter = pointwise_converter(
      {.op = op, .function = "copy", .args = {value}, .compute = Compute::kOutput});
  converter.expand = [name = std::string(value)](const NodeContext& c, Rewriter& r) {
    const Expr* expr = integral(c, name.c_str());
    if (expr == nullptr || expr->is_constant()) return;
    r.replace(0, add_fill(r, *expr, Expr(0), c.output().dtype, c.output().shape));
  };
  return converter;
}

PointwiseRule number(const char* op, int value, TypeRule types = types::of_size) {
  return {.op = op,
          .function = "copy",
          .args = {},
          .compute = Compute::kOutput,
          .choose =
              [value](const NodeContext&, PointwiseInstr& instr) {
                instr.integers = {value};
                return std::string("copy");
              },
          .types = std::move(types)};
}

struct RegisterConstants {
  RegisterConstants() {
    Registry& registry = Registry::instance();
    registry.add(typed(constant("aten::full", "fill_value"), types::of_size));
    registry.add(typed(constant("aten::full_like", "fill_value"), types::kSame));
    registry.add(typed(constant("aten::new_full", "fill_value"), types::of_size));
    registry.add(typed(constant("aten::scalar_tensor", "s"), "-> []"));
    registry.add(constant("aten::fill.Scalar", "value"));
  }
};
const RegisterConstants constants;

// `empty` has no contents to speak of; zeros make every run give the same bits.
const RegisterPointwise numbers({
    number("aten::zeros", 0),
    number("aten::zeros_like", 0, types::kSame),
    number("aten::new_zeros", 0),
    number("aten::ones", 1),
    number("aten::ones_like", 1, types::kSame),
    number("aten::new_ones", 1),
    number("aten::empty.memory_format", 0),
    number("aten::empty_like", 0, types::kSame),
    number("aten::new_empty", 0),
    number("aten::empty_strided", 0),
    number("aten::new_empty_strided", 0),
    number("aten::empty_permuted", 0),
    {.op = "aten::fill.Tensor",
     .function = "cast",
     .args = {"value"},
     .compute = Compute::kSelf,
     .number = "value",
     .types = "self [*s], value [*v] -> [*s]"},  // the converter refuses dimensions
});

/// A start or step of arange: the attribute, or what torch takes where it is left out. torch rounds
/// both towards 0 before it counts in integers.
Attr bound(const NodeContext& c, const char* arg, int missing) {
  if (!c.node.has(arg)) return Expr(missing);
  const double* number = std::get_if<double>(&c.node.arg(arg).attr);
  if (number == nullptr || is_float(c.output().dtype)) return c.node.arg(arg).attr;
  return Expr(static_cast<int64_t>(*number));
}

/// Two floats hold a number that is known; a symbol beside one is PyTorch's.
std::string arange_refusal(const NodeContext& c) {
  const Attr start = bound(c, "start", 0), step = bound(c, "step", 1);
  const bool real = std::holds_alternative<double>(start) || std::holds_alternative<double>(step);
  const auto symbolic = [](const Attr& attr) {
    const Expr* number = std::get_if<Expr>(&attr);
    return number != nullptr && !number->is_constant();
  };
  return real && (symbolic(start) || symbolic(step)) ? "a float step from a symbol" : "";
}

void expand_arange(const NodeContext& c, Rewriter& r) {
  r.replace(0, add_fill(r, bound(c, "start", 0), bound(c, "step", 1), c.output().dtype,
                        c.output().shape));
}

/// Row number equals column number.
void expand_eye(const NodeContext& c, Rewriter& r) {
  const Shape& shape = c.output().shape;
  const ValueId rows = add_fill(r, Expr(0), Expr(1), DType::kI32, {shape[0], Expr(1)});
  const ValueId columns = add_fill(r, Expr(0), Expr(1), DType::kI32, {shape[1]});
  r.replace(0, r.cast(r.pointwise("eq", {rows, columns}, DType::kBool), c.output().dtype));
}

std::string linspace_refusal(const NodeContext& c) {
  return is_float(c.output().dtype) ? "" : "linspace of integers stays native";
}

/// From the nearer end, as torch does.
void expand_linspace(const NodeContext& c, Rewriter& r) {
  const double start = c.node.number("start"), end = c.node.number("end");
  const double steps = c.node.number("steps");
  const ValueId index = add_fill(r, Expr(0), Expr(1), DType::kF32, c.output().shape);
  const double step = steps > 1 ? (end - start) / (steps - 1) : 0;
  const ValueId line = r.pointwise("linspace", {index}, DType::kF32, {start, end, step, steps});
  r.replace(0, r.cast(line, c.output().dtype));
}

const RegisterConverter ranges({
    {.op = "aten::arange",
     .unsupported = arange_refusal,
     .expand = expand_arange,
     .types = "-> [.]"},
    {.op = "aten::arange.start",
     .unsupported = arange_refusal,
     .expand = expand_arange,
     .types = "-> [.]"},
    {.op = "aten::arange.start_step",
     .unsupported = arange_refusal,
     .expand = expand_arange,
     .types = "-> [.]"},
    {.op = "prims::iota",
     .unsupported = arange_refusal,
     .expand = expand_arange,
     .types = "-> [.]"},
    {.op = "aten::eye", .expand = expand_eye, .types = types::eye},
    {.op = "aten::eye.m", .expand = expand_eye, .types = types::eye},
    {.op = "aten::linspace",
     .unsupported = linspace_refusal,
     .expand = expand_linspace,
     .types = types::line},
});

/// A double as the sum of two floats.
void add_real(Step& step, const std::string& name, double value) {
  const auto high = static_cast<float>(value);
  const double rest = std::isfinite(high) ? value - static_cast<double>(high) : 0;
  step.params.push_back({.name = name, .value = high});
  step.params.push_back({.name = name + "_low", .value = static_cast<float>(rest)});
}

Expr whole(const Attr& attr) {
  const bool* flag = std::get_if<bool>(&attr);
  return flag != nullptr ? Expr(*flag ? 1 : 0) : std::get<Expr>(attr);
}

/// Whether start + i * step fits 32 bits for each element.
bool fits_32_bits(const NodeContext& c, const Expr& start, const Expr& step) {
  constexpr int64_t kMost = (int64_t{1} << 31) - 1;
  const auto fits = [&](const Expr& number) {
    const auto [low, high] = number.bounds(c.graph.symbols);
    return holds(DType::kI32, low) && holds(DType::kI32, high);
  };
  return fits(start) && fits(step) &&
         fits(start + step * min(product(c.output().shape), Expr(kMost)));
}

/// How fill.comp counts, and with which numbers. The arithmetic follows the arguments: a float
/// start or step makes it float.
void add_numbers(const NodeContext& c, Step& step) {
  const Attr &start = c.node.arg("start").attr, &by = c.node.arg("step").attr;
  const DType dtype = c.output().dtype;
  const auto add = [&](const char* kind, DType first, DType second) {
    step.defines.emplace_back("KIND", kind);
    step.params.push_back({.name = "start", .value = whole(start), .number = first});
    step.params.push_back({.name = "step", .value = whole(by), .number = second});
  };
  if (std::holds_alternative<double>(start) || std::holds_alternative<double>(by)) {
    step.defines.emplace_back("KIND", "2");
    add_real(step, "start", c.node.number("start"));
    add_real(step, "step", c.node.number("step"));
  } else if (whole(by) == Expr(0)) {
    add("3", dtype, DType::kI32);
  } else if (dtype == DType::kI64) {
    add("1", DType::kI64, DType::kI64);
  } else if (is_float(dtype) && c.device.int64 && !fits_32_bits(c, whole(start), whole(by))) {
    add("1", DType::kI64, DType::kI64);
  } else {
    add("0", DType::kI32, DType::kI32);
  }
}

void convert_fill(const NodeContext& c, Builder& builder) {
  const Expr numel = product(c.output().shape);
  Step step;
  step.kernel = "fill";
  const uint32_t unroll = c.device.is_cpu() ? 16 : 1;
  step.local_size = {c.device.is_cpu() ? c.device.subgroup_size : 256, 1, 1};
  step.defines = {{"UNROLL", std::to_string(unroll) + "u"}};
  step.params = {{.name = "numel", .value = numel}};
  add_numbers(c, step);
  step.operands = {dst("out", c.node.outputs.at(0))};
  step.grid = Grid::flat_groups(ceil_div(numel, Expr(int64_t{step.local_size[0]} * unroll)));
  builder.emit({{.name = "fill", .refusal = {}, .steps = {step}}});
}

Graph fill_example(DType dtype, Attr start, Attr step) {
  Graph graph{.name = "fill_example"};
  Node node;
  node.op = "tv::fill";
  node.name = "fill";
  node.args = {attr_arg("start", std::move(start)), attr_arg("step", std::move(step))};
  const ValueId out = graph.add_output(node, dtype, {Expr(77)});
  graph.nodes.push_back(std::move(node));
  graph.outputs = {{.value = out, .name = "out", .strides = {}}};
  return graph;
}

std::vector<Graph> fill_examples() {
  return {fill_example(DType::kI64, Expr(5), Expr(2)), fill_example(DType::kF32, Expr(0), Expr(1)),
          fill_example(DType::kF16, 0.5, 0.1), fill_example(DType::kI32, Expr(0), Expr(-1)),
          fill_example(DType::kBool, Expr(1), Expr(0))};
}

const RegisterConverter fill({
    {.op = "tv::fill",
     .convert = convert_fill,
     .epilogue = true,
     .examples = fill_examples,
     .notes = "out[i] = start + i * step"},
});

}  // namespace
}  // namespace tv
