#include "csrc/rewriter.h"

#include "runtime/base/error.h"

namespace tv {
namespace {

bool is_one(const Expr& dim) { return dim.constant() == 1; }

/// torch's broadcasting of two shapes; `op` names the error.
Shape broadcast(const Shape& a, const Shape& b, const std::string& op) {
  const Shape& longer = a.size() >= b.size() ? a : b;
  const Shape& shorter = a.size() >= b.size() ? b : a;
  Shape out = longer;
  const size_t skip = longer.size() - shorter.size();
  for (size_t i = 0; i < shorter.size(); ++i) {
    Expr& dim = out[skip + i];
    if (is_one(dim)) {
      dim = shorter[i];
    } else if (!is_one(shorter[i]) && dim.constant() && shorter[i].constant() &&
               !(dim == shorter[i])) {
      throw Error(ErrorKind::kInternal, "[" + op + "] sizes " + dim.str() + " and " +
                                            shorter[i].str() + " do not broadcast");
    }
  }
  return out;
}

/// torch's promotion order, enough for operands that a converter already made alike.
DType promote(DType a, DType b) {
  const auto rank = [](DType d) {
    if (d == DType::kF64) return 9;
    if (d == DType::kF32) return 8;
    if (is_float(d)) return 7;
    return d == DType::kBool ? 0 : static_cast<int>(size_bytes(d));
  };
  if (a != b && is_float(a) && is_float(b) && rank(a) == rank(b)) return DType::kF32;  // f16, bf16
  return rank(a) >= rank(b) ? a : b;
}

}  // namespace

std::vector<ValueId> Rewriter::add_multi(std::string op, std::vector<Arg> args,
                                         const std::vector<std::pair<DType, Shape>>& outputs) {
  Node node;
  node.name =
      replaced_.name + "_" + op.substr(op.rfind(':') + 1) + "_" + std::to_string(out_.size());
  node.op = std::move(op);
  node.args = std::move(args);
  node.source = replaced_.source;
  node.module_path = replaced_.module_path;
  node.fused_ops =
      replaced_.fused_ops.empty() ? std::vector<std::string>{replaced_.op} : replaced_.fused_ops;
  for (const auto& [dtype, shape] : outputs) graph_.add_output(node, dtype, shape);
  out_.push_back(std::move(node));
  return out_.back().outputs;
}

ValueId Rewriter::add(std::string op, std::vector<Arg> args, DType dtype, Shape shape) {
  return add_multi(std::move(op), std::move(args), {{dtype, std::move(shape)}}).front();
}

void Rewriter::replace(size_t index, ValueId value) { replacements_.emplace_back(index, value); }

ValueId Rewriter::cast(ValueId value, DType dtype) {
  if (graph_.value(value).dtype == dtype) return value;
  return pointwise("cast", {value}, dtype);
}

ValueId Rewriter::reshape(ValueId value, Shape shape) {
  if (graph_.value(value).shape == shape) return value;
  const DType dtype = graph_.value(value).dtype;
  return add("aten::view", {tensor_arg("self", value), attr_arg("size", shape)}, dtype, shape);
}

ValueId Rewriter::permute(ValueId value, std::vector<int64_t> dims) {
  Shape shape;
  std::vector<Expr> order;
  for (const int64_t d : dims) {
    shape.push_back(graph_.value(value).shape.at(d));
    order.emplace_back(d);
  }
  const DType dtype = graph_.value(value).dtype;
  return add("aten::permute", {tensor_arg("self", value), attr_arg("dims", std::move(order))},
             dtype, std::move(shape));
}

ValueId Rewriter::pointwise(const std::string& function, std::vector<ValueId> operands, DType dtype,
                            std::vector<double> scalars) {
  auto program = std::make_shared<PointwiseProgram>();
  PointwiseInstr instr{.function = function,
                       .operands = {},
                       .scalars = std::move(scalars),
                       .integers = {},
                       .compute = dtype,
                       .result = dtype};
  Shape shape;
  DType operand_type = dtype;
  for (size_t i = 0; i < operands.size(); ++i) {
    const Value& operand = graph_.value(operands[i]);
    program->inputs.push_back(operand.dtype);
    instr.operands.push_back(static_cast<int32_t>(i));
    shape = i == 0 ? operand.shape : broadcast(shape, operand.shape, replaced_.op);
    operand_type = i == 0 ? operand.dtype : promote(operand_type, operand.dtype);
  }
  // A comparison computes in its operands' type; everything else in the type of its result.
  if (dtype == DType::kBool && function != "cast") instr.compute = operand_type;
  program->results = {static_cast<int32_t>(operands.size())};
  program->instrs = {std::move(instr)};
  const ValueId out = add("tv::pointwise", {tensor_list_arg("inputs", std::move(operands))}, dtype,
                          std::move(shape));
  out_.back().program = std::move(program);
  return out;
}

}  // namespace tv
