#include "converters/kit/pointwise_rules.h"

#include <algorithm>
#include <memory>

#include "csrc/codegen/glsl_types.h"
#include "csrc/codegen/pointwise_table.h"
#include "csrc/rewriter.h"
#include "csrc/settings.h"
#include "runtime/base/error.h"

namespace tv {

namespace {

enum Kind { kNone = -1, kKindBool, kKindInt, kKindFloat };

Kind kind_of(DType dtype) {
  return is_float(dtype) ? kKindFloat : is_integer(dtype) ? kKindInt : kKindBool;
}

/// torch.promote_types.
DType promote(DType a, DType b) {
  if (a == b || b == DType::kOther) return a;
  if (a == DType::kOther) return b;
  const Kind ka = kind_of(a), kb = kind_of(b);
  if (ka != kb) return ka > kb ? a : b;
  if (ka == kKindFloat) {
    if (a == DType::kF64 || b == DType::kF64) return DType::kF64;
    return DType::kF32;  // two different ones of float32, float16, bfloat16
  }
  const bool has_u8 = a == DType::kU8 || b == DType::kU8;
  const DType other = a == DType::kU8 ? b : a;
  if (has_u8 && other == DType::kI8) return DType::kI16;
  return size_bytes(a) > size_bytes(b) || (has_u8 && other == a) ? a : b;
}

DType scalar_type(const Attr& attr) {
  if (std::holds_alternative<double>(attr)) return DType::kF32;
  if (std::holds_alternative<bool>(attr)) return DType::kBool;
  return DType::kI64;
}

bool is_symbolic(const Attr& attr) {
  const Expr* expr = std::get_if<Expr>(&attr);
  return expr != nullptr && !expr->is_constant();
}

bool is_scalar(const Attr& attr) {
  return std::holds_alternative<double>(attr) || std::holds_alternative<bool>(attr) ||
         std::holds_alternative<Expr>(attr);
}

/// The named arguments that are there, tensors apart from scalars, in order.
struct Arguments {
  std::vector<ValueId> tensors;
  std::vector<const Attr*> scalars;
};

Arguments arguments(const PointwiseRule& rule, const Node& node) {
  Arguments out;
  for (const std::string& name : rule.args) {
    const Arg* arg = node.find(name);
    if (arg == nullptr || !node.has(name)) continue;
    if (arg->is_tensor) {
      out.tensors.push_back(node.input(name));
    } else {
      out.scalars.push_back(&arg->attr);
    }
  }
  return out;
}

DType compute_type(const PointwiseRule& rule, const NodeContext& context) {
  std::vector<std::string> typed;
  for (const std::string& arg : rule.args) {
    if (std::ranges::find(rule.untyped, arg) == rule.untyped.end()) typed.push_back(arg);
  }
  switch (rule.compute) {
    case Compute::kBool:
      return DType::kBool;
    case Compute::kOutput:
      return context.output().dtype;
    case Compute::kSelf:
      return context.dtype(rule.args.front());
    case Compute::kPromoted:
      return result_type(context, typed);
    case Compute::kFloat:
      break;
  }
  const DType dtype = result_type(context, typed);
  return is_float(dtype) ? dtype : DType::kF32;
}

void add_immediate(PointwiseInstr& instr, const Attr& attr) {
  const bool as_integer = is_integer(instr.compute) || instr.compute == DType::kBool;
  if (const double* value = std::get_if<double>(&attr)) {
    if (as_integer) {
      instr.integers.push_back(instr.compute == DType::kBool ? *value != 0
                                                             : static_cast<int64_t>(*value));
    } else {
      instr.scalars.push_back(*value);
    }
    return;
  }
  int64_t value = 0;
  if (const bool* flag = std::get_if<bool>(&attr)) value = *flag ? 1 : 0;
  if (const Expr* expr = std::get_if<Expr>(&attr)) value = expr->constant().value();
  if (as_integer) {
    instr.integers.push_back(value);
  } else {
    instr.scalars.push_back(static_cast<double>(value));
  }
}

/// Whether the argument becomes a tensor: it is a symbol, or a number before one, because
/// immediates follow the tensors.
bool becomes_tensor(const PointwiseRule& rule, const Node& node, const std::string& name) {
  const auto first = std::ranges::find(rule.args, name);
  return std::any_of(first, rule.args.end(), [&](const std::string& other) {
    const Arg* arg = node.find(other);
    return arg != nullptr && !arg->is_tensor && is_symbolic(arg->attr);
  });
}

/// The node with tensors in the place of its symbols; `made` says which tensor for which number.
Node without_symbols(const PointwiseRule& rule, const Node& node,
                     const std::function<ValueId(const Arg&)>& made) {
  Node out = node;
  for (Arg& arg : out.args) {
    const bool named = std::ranges::find(rule.args, arg.name) != rule.args.end();
    if (!named || arg.is_tensor || !node.has(arg.name)) continue;
    if (becomes_tensor(rule, node, arg.name)) arg = tensor_arg(arg.name, made(arg));
  }
  return out;
}

PointwiseOp make_op(const PointwiseRule& rule, const NodeContext& context, DType compute) {
  const Arguments args = arguments(rule, context.node);
  PointwiseOp out;
  out.operands = args.tensors;
  out.instr.function = rule.function;
  for (size_t k = 0; k < args.tensors.size(); ++k)
    out.instr.operands.push_back(static_cast<int32_t>(k));
  out.instr.compute = compute;
  out.instr.result = context.output().dtype;
  for (const Attr* attr : args.scalars) add_immediate(out.instr, *attr);
  if (rule.choose) {
    const std::string function = rule.choose(context, out.instr);
    if (!function.empty()) out.instr.function = function;
  }
  return out;
}

/// By a number: kernels look at tensors.
bool divides_by_zero(const PointwiseInstr& instr) {
  const int32_t divisor = divisor_of(instr);
  const auto operands = static_cast<int32_t>(instr.operands.size());
  if (divisor < operands) return false;
  const auto at = static_cast<size_t>(divisor - operands);
  const std::string zero = glsl_literal(int64_t{0}, instr.compute);
  return at < instr.integers.size() && glsl_literal(instr.integers[at], instr.compute) == zero;
}

bool defined_for(const PointwiseRow& row, DType compute) {
  switch (glsl_class(compute)) {
    case GlslClass::kFloat:
      return row.on_float != nullptr;
    case GlslClass::kInt:
      return row.on_int != nullptr;
    case GlslClass::kInt64:
      return row.on_int64 != nullptr;
    case GlslClass::kBool:
      return row.on_bool != nullptr;
  }
  return false;
}

/// A number in the place of an operand wraps as elements do; of others PyTorch says that they
/// overflow.
bool wraps(const std::string& argument) { return argument == "self" || argument == "other"; }

/// Which number of the node PyTorch refuses, or "".
std::string number_that_raises(const PointwiseRule& rule, const Node& node, DType compute) {
  if (!is_integer(compute)) return "";
  for (const std::string& name : rule.args) {
    const Arg* arg = node.find(name);
    if (arg == nullptr || arg->is_tensor || wraps(name)) continue;
    const Expr* number = std::get_if<Expr>(&arg->attr);
    if (number == nullptr || !number->is_constant() || holds(compute, *number->constant()))
      continue;
    return "the number " + number->str() + " does not fit " + std::string(tv::name(compute));
  }
  return "";
}

std::string refusal(const PointwiseRule& rule, const NodeContext& context) {
  for (const std::string& name : rule.args) {
    const Arg* arg = context.node.find(name);
    if (arg == nullptr || arg->is_tensor || !context.node.has(name)) continue;
    if (!is_scalar(arg->attr)) return "argument " + name + " is not a real number";
  }
  if (const Arg* arg = context.node.find(rule.number);
      arg != nullptr && arg->is_tensor && context.rank(rule.number) != 0) {
    return "PyTorch wants " + rule.number + " to be of rank 0";
  }
  const Node node =
      without_symbols(rule, context.node, [&](const Arg&) { return context.node.outputs.at(0); });
  const NodeContext expanded{context.graph, node, context.device, context.settings};
  const PointwiseOp op = make_op(rule, expanded, compute_type(rule, context));
  const std::string too_large = number_that_raises(rule, node, op.instr.compute);
  if (!too_large.empty()) return too_large;
  const PointwiseRow* row = find_pointwise(op.instr.function);
  if (row == nullptr) return "has no kernel for these arguments (" + op.instr.function + ")";
  if (divides_by_zero(op.instr)) return "divides integers by 0, which PyTorch refuses";
  // truncate_long_and_double makes int32 and float32 of them before kernels are generated.
  DType compute = op.instr.compute;
  if (compute == DType::kF64 && context.settings.truncate_long_and_double) compute = DType::kF32;
  if (compute == DType::kF64 || compute == DType::kOther) {
    return "computes in " + std::string(name(compute)) + ", which engines do not";
  }
  return defined_for(*row, compute) ? "" : "is not defined for " + std::string(name(compute));
}

/// The symbolic number as an element of the type: what its low bits are.
Attr wrapped(const Attr& attr, DType dtype, const Graph& graph) {
  if (!is_symbolic(attr) || !is_integer(dtype) || dtype == DType::kI64) return attr;
  const Expr& number = std::get<Expr>(attr);
  const auto [least, most] = number.bounds(graph.symbols);
  if (holds(dtype, least) && holds(dtype, most)) return attr;
  const int64_t count = int64_t{1} << (8 * size_bytes(dtype));
  const Expr low = mod(number, count);
  if (dtype == DType::kU8) return low;
  return mod(low + count / 2, count) - count / 2;
}

/// Puts a 0-dim tensor in the place of each symbolic scalar, of the type that eager makes of the
/// number: 16-bit floats compute in float32.
void materialise_symbols(const PointwiseRule& rule, const NodeContext& context,
                         Rewriter& rewriter) {
  const Arguments args = arguments(rule, context.node);
  if (std::ranges::none_of(args.scalars, [](const Attr* a) { return is_symbolic(*a); })) return;
  const DType compute = compute_type(rule, context);
  const DType dtype = is_float(compute) ? DType::kF32 : compute;
  const Node node = without_symbols(rule, context.node, [&](const Arg& number) {
    const Attr value =
        wraps(number.name) ? wrapped(number.attr, dtype, context.graph) : number.attr;
    return rewriter.add("aten::scalar_tensor", {attr_arg("s", value), attr_arg("dtype", dtype)},
                        dtype, {});
  });
  rewriter.replace(
      0, rewriter.add(node.op, node.args, context.output().dtype, context.output().shape));
}

}  // namespace

DType result_type(const NodeContext& context, const std::vector<std::string>& args) {
  DType dims = DType::kOther, zero = DType::kOther, scalars = DType::kOther;
  for (const std::string& name : args) {
    const Arg* arg = context.node.find(name);
    if (arg == nullptr || !context.node.has(name)) continue;
    if (!arg->is_tensor) {
      scalars = promote(scalars, scalar_type(arg->attr));
      continue;
    }
    DType& group = context.rank(name) > 0 ? dims : zero;
    group = promote(group, context.dtype(name));
  }
  const auto combine = [](DType higher, DType lower) {
    if (higher == DType::kOther) return lower;
    if (lower == DType::kOther || kind_of(lower) <= kind_of(higher)) return higher;
    return lower;
  };
  return combine(dims, combine(zero, scalars));
}

Converter pointwise_converter(PointwiseRule rule) {
  if (rule.formula) {
    if (rule.function.empty()) {
      const size_t start = rule.op.find("::") + 2;
      rule.function = rule.op.substr(start, rule.op.find('.') - start);
    }
    rule.formula->arity = std::max(rule.formula->arity, static_cast<int>(rule.args.size()));
    add_pointwise(rule.function, *rule.formula);
  }
  const auto shared = std::make_shared<const PointwiseRule>(std::move(rule));
  Converter converter;
  converter.op = shared->op;
  converter.notes = shared->notes;
  converter.keeps_float32 = shared->keeps_float32;
  converter.moves = shared->moves;
  converter.types = shared->types;
  tell_pointwise_function(shared->op, shared->function);
  converter.unsupported = [shared](const NodeContext& c) { return refusal(*shared, c); };
  converter.expand = [shared](const NodeContext& c, Rewriter& r) {
    materialise_symbols(*shared, c, r);
  };
  converter.pointwise = [shared](const NodeContext& c) {
    return make_op(*shared, c, compute_type(*shared, c));
  };
  return converter;
}

}  // namespace tv
